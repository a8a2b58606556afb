"""redis-py 5 and redlock-ng, unchanged, with a Leasehold server in place of Redis."""

import sys

import redis
from redlock import Redlock

port = int(sys.argv[1])


def redis_py() -> None:
    client = redis.Redis(port=port, db=1)
    lock = client.lock("job", timeout=30)
    assert lock.acquire(blocking=False)
    assert lock.extend(5) and lock.reacquire() and lock.owned()
    assert not client.lock("job", timeout=5).acquire(blocking_timeout=0.3)
    lock.release()
    assert client.lock("job", timeout=1).acquire(blocking=False)


def redlock_ng() -> None:
    url = f"redis://127.0.0.1:{port}/0"
    manager = Redlock([url])
    held = manager.acquire("ng", 60_000)
    assert held
    assert manager.extend(held, 60_000)
    assert not Redlock([url], retry_count=1).acquire("ng", 5000)
    manager.release(held)
    assert not manager.extend(held, 7000)
    with manager.lock("ng", 60_000):
        assert not Redlock([url], retry_count=0).acquire("ng", 5000)


for try_it in (redis_py, redlock_ng):
    try_it()
    print(f"{try_it.__name__}: as with Redis (redis-py {redis.__version__})")
