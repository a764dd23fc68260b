"""Make the buckets that are named, as soon as the store answers. What is there stays as it is."""

import os
import sys
import time
from urllib.parse import urlsplit

from minio import Minio

address = urlsplit(os.environ["AWS_ENDPOINT_URL_S3"])
store = Minio(
    address.netloc,
    access_key=os.environ["AWS_ACCESS_KEY_ID"],
    secret_key=os.environ["AWS_SECRET_ACCESS_KEY"],
    secure=address.scheme == "https",
    region=os.environ["AWS_REGION"],
)

give_up = time.monotonic() + 300
for bucket in sys.argv[1:]:
    while True:
        try:
            there = store.bucket_exists(bucket)
            if not there:
                store.make_bucket(bucket)
            break
        except Exception as error:
            if time.monotonic() > give_up:
                sys.exit(f"{address.geturl()} does not answer: {error}")
            print(f"waiting for {address.geturl()}: {type(error).__name__}", flush=True)
            time.sleep(2)
    print(f"{bucket}: {'was there' if there else 'made'}", flush=True)
