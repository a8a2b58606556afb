"""redis-py, pottery and redlock-py, unchanged, with a Leasehold server in place of Redis."""

import sys

import redis
from pottery import Redlock
from redis.exceptions import LockNotOwnedError
from redlock import Redlock as RedlockPy

port = int(sys.argv[1])


def redis_py() -> None:
    client = redis.Redis(port=port)
    lock = client.lock("job", timeout=30)
    assert lock.acquire(blocking=False)
    assert lock.locked() and lock.owned()
    assert lock.extend(5) and lock.extend(30, replace_ttl=True) and lock.reacquire()
    other = client.lock("job", timeout=5)
    assert not other.acquire(blocking_timeout=0.3)
    other.local.token = b"another client"
    try:
        other.release()
        raise AssertionError("released what is another's")
    except LockNotOwnedError:
        pass
    lock.release()
    assert not lock.locked()
    with client.lock("job", timeout=30):
        assert client.get("job") is not None
        assert 0 < client.pttl("job") <= 30_000
    # The holder does not extend it, so the waiting client gets it.
    assert client.lock("short", timeout=0.2).acquire()
    assert client.lock("short", timeout=5).acquire(blocking_timeout=60)
    # A transaction takes nothing.
    with client.pipeline() as pipeline:
        pipeline.set("t1", "me", nx=True)
        pipeline.set("t2", "me", nx=True, px=60_000)
        try:
            pipeline.execute()
            raise AssertionError("a transaction was executed")
        except redis.ResponseError as error:
            assert "MULTI is not supported" in str(error), error
    assert client.exists("t1", "t2") == 0
    with client.pipeline(transaction=False) as pipeline:
        for n in range(16):
            pipeline.set(f"k{n}", "me", nx=True, px=60_000)
        assert pipeline.execute() == [True] * 16
    assert client.setnx("once", "me") and not client.setnx("once", "you")
    assert client.get("once") == b"me"
    client.delete("once")
    try:
        client.flushall()
        raise AssertionError("there is nothing to flush")
    except redis.ResponseError as error:
        assert "Leasehold" in str(error), error


def pottery() -> None:
    masters = {redis.Redis(port=port)}
    lock = Redlock(key="p", masters=masters, auto_release_time=30)
    assert lock.acquire()
    assert 0 < lock.locked() <= 30_000
    lock.extend()
    assert not Redlock(key="p", masters=masters).acquire(blocking=False)
    lock.release()
    assert not lock.locked()


def redlock_py() -> None:
    manager = RedlockPy([{"host": "127.0.0.1", "port": port, "db": 2}])
    held = manager.lock("r", 60_000)
    assert held
    assert not RedlockPy([{"host": "127.0.0.1", "port": port, "db": 2}]).lock("r", 5000)
    manager.unlock(held)
    assert manager.lock("r", 30_000)


for try_it in (redis_py, pottery, redlock_py):
    try_it()
    print(f"{try_it.__name__}: as with Redis (redis-py {redis.__version__})")
