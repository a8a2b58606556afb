"""redis-py with an API key as its password, over TLS."""

import sys

import redis

port, key, ca = int(sys.argv[1]), sys.argv[2], sys.argv[3]


def client(password: str | None) -> redis.Redis:
    return redis.Redis(port=port, password=password, ssl=True, ssl_ca_certs=ca)


with client(key).lock("job", timeout=10) as lock:
    assert lock.owned()
    assert not client(key).lock("job", timeout=10).acquire(blocking=False)
for password in (None, "lh_wrong_key"):
    try:
        client(password).set("job", "me", nx=True, px=1000)
        raise AssertionError("let in without a key")
    except redis.AuthenticationError:
        pass
try:
    client(key).delete("job")
    raise AssertionError("taken away without the right to")
except redis.exceptions.NoPermissionError:
    pass
print(f"redis-py {redis.__version__} with an API key over TLS: as with Redis")
