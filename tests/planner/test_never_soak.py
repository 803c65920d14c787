"""The same properties over many more fleets, for `make soak`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.planner import test_never as never
from tests.planner.worlds import cases

EXAMPLES = 2_000
SEEDS = st.integers(0, 2**32)
PROPERTIES: dict[Callable[..., Any], tuple[Any, ...]] = {
    never.test_never_is_a_floor_crossed_whatever_the_order: (cases(), SEEDS),
    never.test_never_does_a_plan_get_stuck: (cases(), SEEDS),
    never.test_never_is_an_undeclared_mixed_set_made_live: (cases(), SEEDS),
    never.test_never_does_one_step_lack_what_it_needs: (cases(),),
    never.test_never_do_the_same_inputs_give_other_bytes: (cases(),),
    never.test_never_is_anything_left_to_do_after_a_plan_was_carried_out: (cases(), SEEDS),
    never.test_never_does_a_new_plan_fail_where_one_was_cut_off: (cases(), SEEDS, st.data()),
    never.test_never_is_a_node_touched_that_is_as_declared: (cases(healthy=True),),
    never.test_never_does_a_plan_reach_past_its_targets: (cases(healthy=True),),
    never.test_never_does_data_change_its_format_without_a_backup_before: (cases(), SEEDS),
    never.test_never_is_a_hook_left_out_or_run_twice: (cases(), SEEDS),
}


def test_the_list_is_complete() -> None:
    assert {p.__name__ for p in PROPERTIES} == {n for n in vars(never) if n.startswith("test_")}


@pytest.mark.soak
@pytest.mark.timeout(0)
@pytest.mark.parametrize("prop", PROPERTIES, ids=lambda p: p.__name__.removeprefix("test_never_"))
def test_never_over_many_fleets(prop: Callable[..., Any]) -> None:
    inner = prop.hypothesis.inner_test  # type: ignore[attr-defined]
    many: Any = settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
    given_any: Any = given
    soaked = many(given_any(*PROPERTIES[prop])(inner))
    soaked()
