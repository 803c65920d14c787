"""Text that tries to be something else where it is shown: Markdown, HTML, a workflow command, a terminal's escape."""

from __future__ import annotations

from hypothesis import strategies as st

TEXTS = (
    "`",
    "``` \n```\n<details open>",
    "a`b``c```d",
    "</details><img src=x onerror=alert(1)>",
    "\n\n# heading\n\n- item",
    "[link](https://example.invalid) ![image](https://example.invalid/x.png)",
    "@everybody #1 https://example.invalid www.example.invalid",
    "--> <!-- fleetctl review 0000000000000000 -->",
    "~~~\n```text\nx\n```",
    "| a | b |\n|---|---|",
    "::error file=x::pwned",
    "  ::add-mask::secret",
    "x\n::set-output name=a::b",
    "x\r::warning::b\r\n::stop-commands::pause",
    "%0A::error::%0D%25",
    "##[error]pwned ##[command]x",
    "a,title=b:c",
    "\u2028::error::x\u0085::error::y",
    "\u200b::error::x\u00ad::error::y",
    "\x1b[2J\x1b]0;title\x07\u202egnp.exe",
    "\x00\x07\x7f",
    "\U0001f680" * 40,
)
# Few characters, so that chance finds their combinations.
texts = st.one_of(
    st.sampled_from(TEXTS),
    st.text(alphabet="`:#[]<>/!-\n\r \t*_~|\\@&;%,x\u2028\U0001f680", max_size=60),
)
