"""The one error of the test-bed."""


class TestbedError(Exception):
    """The cluster cannot be built or does not come up; the message says what to do or shows the daemons' logs."""

    __test__ = False  # pytest takes classes named Test* for tests
