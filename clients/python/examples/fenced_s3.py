"""A fenced object in S3, by conditional writes (If-Match, If-None-Match): a put of a former leader fails.

    pip install boto3
    SUFFRAGE_NODE=http://127.0.0.1:7480 BUCKET=ledger python fenced_s3.py

The object contains the token of its writer. A writer reads the object and its ETag, refuses to go on if the object has
a greater token, and replaces exactly the version that it has read. A put that was on its way when the next leader wrote
fails, because the ETag is another one. The token in the content makes every version differ from those of other leaders:
the ETag of a small object is a digest of its content.
"""

from __future__ import annotations

import json
import os
from typing import Any

import boto3
import job
from botocore.exceptions import ClientError

import suffrage

KEY = "ledger.json"


def failed_with(error: ClientError, *codes: str) -> bool:
    """Tell whether the store has answered one of these codes."""
    return error.response.get("Error", {}).get("Code") in codes


def append(s3: Any, bucket: str, token: int) -> None:
    """Append an entry to the ledger, if no leader with a greater token has written."""
    while True:
        try:
            found = s3.get_object(Bucket=bucket, Key=KEY)
            ledger, condition = json.load(found["Body"]), {"IfMatch": found["ETag"]}
        except ClientError as error:
            if not failed_with(error, "NoSuchKey"):
                raise
            ledger, condition = {"token": 0, "entries": []}, {"IfNoneMatch": "*"}
        if ledger["token"] > token:
            raise suffrage.StaleToken(f"a leader with token {ledger['token']} has written, and this one has {token}")
        ledger = {"token": token, "entries": [*ledger["entries"], token]}
        try:
            s3.put_object(Bucket=bucket, Key=KEY, Body=json.dumps(ledger).encode(), **condition)
            return
        except ClientError as error:
            # Another writer was faster: who was it?
            if not failed_with(error, "PreconditionFailed", "ConditionalRequestConflict"):
                raise


if __name__ == "__main__":
    # AWS_ENDPOINT_URL_S3 names another store than that of Amazon.
    store = boto3.client("s3")
    job.run(lambda token: append(store, os.environ["BUCKET"], token))
