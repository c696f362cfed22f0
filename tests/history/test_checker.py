"""The checker itself: it accepts what is allowed and catches every kind of fault, one canary each."""

import pytest
import random

import structures
from checker import INFINITY, Op, check


def w(client, number, sent, replied, txn, *items):
    return Op(client, number, sent, replied, (), items, txn)


def r(client, number, sent, replied, **reads):
    return Op(client, number, sent, replied, tuple(reads.items()), (), 0)


def kinds(*operations):
    return {violation.kind for violation in check(list(operations))}


def test_a_fair_history_passes():
    assert not kinds(
        w(1, 1, 0, 10, 11, "x", "y"),
        r(2, 1, 1, 9, x=11, y=11),
        w(1, 2, 11, 20, 12, "x", "y"),
        r(2, 2, 12, 13, x=11, y=11),
        r(2, 3, 14, 15, x=12, y=12),
    )


def test_half_of_a_transaction_is_a_fracture():
    assert kinds(w(1, 1, 0, 10, 11, "x", "y"), r(2, 1, 1, 9, x=11, y=0)) == {"fracture"}


def test_two_transactions_mixed_are_a_fracture_in_whatever_order():
    assert kinds(
        w(1, 1, 0, 10, 11, "x", "y"), w(2, 1, 0, 10, 21, "x", "y"), r(3, 1, 0, 10, x=11, y=21)
    ) == {"fracture"}


def test_an_older_other_writer_is_a_fracture():
    """y from U is fine when U is newer than T, and a fracture when it is older; times tell here."""
    older = w(2, 1, 0, 5, 21, "y")
    newer = w(2, 1, 30, 35, 21, "y")
    t = w(1, 1, 10, 50, 11, "x", "y")
    assert kinds(t, older, r(3, 1, 51, 60, x=11, y=21)) != set()
    assert not kinds(t, newer, r(3, 1, 51, 60, x=11, y=21))


def test_two_reads_that_disagree_on_the_order_of_transactions_are_a_fracture():
    """One read puts T before U, the other U before T; each alone is fine."""
    t, u = w(1, 1, 0, 100, 11, "x", "y", "a"), w(2, 1, 0, 100, 21, "y", "x", "b")
    one = r(3, 1, 0, 100, a=11, y=21)
    other = r(4, 1, 0, 100, b=21, x=11)
    assert not kinds(t, u, one)
    assert not kinds(t, u, other)
    assert kinds(t, u, one, other) == {"fracture"}


def test_a_stale_read_is_not_linearizable():
    assert "not linearizable" in kinds(
        w(1, 1, 0, 1, 11, "x"), w(1, 2, 2, 3, 12, "x"), r(2, 1, 4, 5, x=12), r(3, 1, 6, 7, x=11)
    )
    assert "not linearizable" in kinds(w(1, 1, 0, 1, 11, "x"), r(2, 1, 2, 3, x=0))


def test_a_lost_write_is_not_linearizable():
    assert "not linearizable" in kinds(
        w(1, 1, 0, 1, 11, "x"), w(2, 1, 2, 3, 21, "x"), r(3, 1, 4, 5, x=11), r(3, 2, 6, 7, x=11)
    )


def test_a_read_before_its_write_is_caught():
    assert "read from the future" in kinds(r(2, 1, 0, 1, x=11), w(1, 1, 2, 3, 11, "x"))


def test_a_value_that_nobody_wrote_is_caught():
    assert "value from nowhere" in kinds(r(2, 1, 0, 1, x=99))


def test_a_client_that_does_not_read_its_own_write_is_caught():
    """Sent as one pipeline: the times overlap, only the session tells."""
    assert "session order" in kinds(w(1, 1, 0, 10, 11, "x"), r(1, 2, 0, 10, x=0))
    assert kinds(w(2, 1, 0, 20, 21, "x"), r(1, 0, 0, 10, x=21), w(1, 1, 0, 10, 11, "x"), r(1, 2, 0, 10, x=21))


def test_reads_that_go_back_in_one_session_are_caught():
    t, u = w(2, 1, 0, 50, 21, "x"), w(3, 1, 0, 50, 31, "x")
    back = [r(1, n, 0, 50, x=txn) for n, txn in enumerate([21, 31, 21])]
    assert kinds(t, u, *back) == {"session order"}


def test_a_write_that_sorts_before_what_its_client_had_seen_is_caught():
    """Client 1 sees T on x and then writes y; T's y comes out on top of it."""
    t = w(2, 1, 0, 50, 21, "x", "y")
    seen = r(1, 1, 5, 10, x=21)
    for sent, caught in ((11, {"session order"}), (6, set())):  # sent before the reply: it had not seen T
        own = w(1, 2, sent, 20, 11, "y")
        assert kinds(t, seen, own, r(3, 1, 30, 35, y=11), r(4, 1, 40, 60, y=21)) == caught


def test_a_write_without_reply_may_or_may_not_have_happened():
    unknown = w(1, 1, 0, INFINITY, 11, "x", "y")
    assert not kinds(unknown, r(2, 1, 5, 6, x=0, y=0))
    assert not kinds(unknown, r(2, 1, 5, 6, x=11, y=11))
    assert kinds(unknown, r(2, 1, 5, 6, x=11, y=0)) == {"fracture"}


def simulate(seed, faulty=0.0):
    """A made-up store with instantaneous transactions, seen by clients with random delays."""
    rng = random.Random(seed)
    items = ["a", "b", "c", "d", "e"]
    state = dict.fromkeys(items, 0)
    clocks = dict.fromkeys(range(1, 7), 0.0)
    operations = []
    now = 0.0
    for number in range(600):
        client = rng.choice(list(clocks))
        now = max(now, clocks[client]) + rng.random()
        sent = clocks[client] + (now - clocks[client]) * rng.random()
        replied = now + rng.random() * 4
        chosen = rng.sample(items, rng.randint(1, 4))
        if rng.random() < 0.5:
            txn = client << 32 | number
            operations.append(w(client, number, sent, replied, txn, *chosen))
            for item in chosen:
                if rng.random() >= faulty:
                    state[item] = txn
        else:
            operations.append(r(client, number, sent, replied, **{item: state[item] for item in chosen}))
        clocks[client] = replied
    return operations


def test_random_histories_of_a_correct_store_pass():
    for seed in range(60):
        assert check(simulate(seed)) == [], seed


def test_random_histories_of_a_store_that_forgets_writes_are_caught():
    caught = sum(bool(check(simulate(seed, faulty=0.02))) for seed in range(60))
    assert caught > 50


def test_a_set_that_still_holds_what_its_newest_writer_removed_is_not_whole():
    with pytest.raises(structures.Malformed):
        structures.decode("set:1", [b"2:7:5", b"2:5:0"], 3)
    # T6 was not seen: what it removed may still be there.
    assert dict(structures.decode("set:1", [b"2:7:6", b"2:5:0"], 3))["set:1.2"] == 7
