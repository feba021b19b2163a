"""The validity of a leadership, with a clock that the tests set."""

from __future__ import annotations

import os
import unittest

import suffrage
from suffrage._http import Endpoint, Settings
from suffrage._lease import End, Lease


class Clock:
    def __init__(self) -> None:
        self.now_ns = 1_000

    def __call__(self) -> int:
        return self.now_ns


class LeaseTest(unittest.TestCase):
    def setUp(self) -> None:
        self.clock = Clock()
        self.lease = Lease(7, 2_000, 200, self.clock)

    def test_a_lease_is_valid_before_its_deadline_only(self) -> None:
        self.clock.now_ns = 1_999
        self.lease.check()
        self.assertEqual(self.lease.remaining_ns(), 1)
        self.clock.now_ns = 2_000
        self.assertEqual(self.lease.end(), End("expired", 2_000))
        self.assertEqual(self.lease.remaining_ns(), 0)
        with self.assertRaises(suffrage.LeadershipEnded):
            self.lease.check()

    def test_the_work_stops_before_the_deadline(self) -> None:
        self.assertEqual(self.lease.before_stop_ns(), 800)
        self.clock.now_ns = 1_900
        self.assertEqual(self.lease.before_stop_ns(), 0)
        self.lease.check()

    def test_a_renewal_extends_and_never_shortens(self) -> None:
        self.assertTrue(self.lease.extend(8, 3_000))
        self.assertTrue(self.lease.extend(7, 2_500))
        self.assertEqual((self.lease.token, self.lease.remaining_ns()), (8, 2_000))

    def test_a_renewal_after_the_deadline_revives_nothing(self) -> None:
        # Nobody has looked at the clock in between.
        self.clock.now_ns = 2_000
        self.assertFalse(self.lease.extend(8, 9_000))
        self.assertEqual(self.lease.end(), End("expired", 2_000))

    def test_a_renewal_after_a_resignation_revives_nothing(self) -> None:
        self.assertEqual(self.lease.finish("resigned"), End("resigned", 1_000))
        self.assertFalse(self.lease.extend(8, 9_000))
        self.assertEqual(self.lease.finish("lost"), End("resigned", 1_000))

    def test_a_resignation_after_the_deadline_is_an_expiry(self) -> None:
        self.clock.now_ns = 2_500
        self.assertEqual(self.lease.finish("resigned"), End("expired", 2_000))

    def test_a_child_process_does_not_lead(self) -> None:
        child = os.fork()
        if child == 0:
            end = self.lease.end()
            os._exit(0 if end is not None and end.reason == "forked" else 1)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        self.lease.check()


class FenceTest(unittest.TestCase):
    def test_smaller_tokens_are_refused(self) -> None:
        fence = suffrage.Fence(3)
        fence.check(3)
        fence.check(5)
        with self.assertRaises(suffrage.StaleToken):
            fence.check(4)
        self.assertEqual(fence.greatest, 5)


class EndpointTest(unittest.TestCase):
    def test_wrong_endpoints_are_refused(self) -> None:
        settings = Settings(None, None, False)
        for address in ("", "ftp://x", "http://", "http://x/path", "http://x:port", "unix:relative", "10.0.0.1:7480"):
            with self.subTest(address), self.assertRaises(suffrage.Invalid):
                Endpoint(address, settings)
        for address in ("http://10.0.0.1:7480", "https://[::1]:7480/", "unix:/run/x.sock"):
            Endpoint(address, settings)

    def test_a_token_does_not_leave_the_machine_unencrypted(self) -> None:
        for address, fits in (
            ("http://10.0.0.1:7480", False),
            ("https://10.0.0.1:7480", True),
            ("http://127.1.2.3:7480", True),
            ("http://[::1]:7480", True),
            ("http://localhost:7480", True),
        ):
            with self.subTest(address):
                if fits:
                    Endpoint(address, Settings("token", None, False))
                else:
                    with self.assertRaises(suffrage.Invalid):
                        Endpoint(address, Settings("token", None, False))
                Endpoint(address, Settings("token", None, True))

    def test_a_stop_margin_fits_into_the_ttl(self) -> None:
        client = suffrage.Client("http://127.0.0.1:1")
        client.election("x", ttl=2, stop_margin=1)
        with self.assertRaises(suffrage.Invalid):
            client.election("x", ttl=2, stop_margin=1.5)


if __name__ == "__main__":
    unittest.main()
