"""The stores of the laboratory keep the promises that the product builds on."""

from __future__ import annotations

import pytest

from tests.lab.postgres import Postgres
from tests.lab.process import run
from tests.lab.s3 import S3


def test_s3_refuses_to_write_over_what_must_not_exist(s3: S3) -> None:
    from botocore.exceptions import ClientError

    client, bucket = s3.client(), s3.bucket("laboratory")
    client.put_object(Bucket=bucket, Key="k", Body=b"1", IfNoneMatch="*")
    with pytest.raises(ClientError, match="PreconditionFailed"):
        client.put_object(Bucket=bucket, Key="k", Body=b"2", IfNoneMatch="*")


def test_postgres_keeps_what_was_committed_through_kill_9(postgres: Postgres) -> None:
    query = ["psql", postgres.url, "--no-psqlrc", "-Atqc"]
    run([*query, "create table lab_kept as select 7 as n"])
    postgres.kill()
    postgres.start()
    assert run([*query, "select n from lab_kept"]).stdout == b"7\n"
