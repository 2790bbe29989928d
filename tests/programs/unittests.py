"""A program that is a test suite."""

import sys
import unittest
from unittest import mock


def area(w, h):
    if w < 0:
        raise ValueError("negative")
    result = w * h
    return result


class Tests(unittest.TestCase):
    def setUp(self):
        self.sizes = [(1, 2), (3, 4)]

    def test_area(self):
        for w, h in self.sizes:
            with self.subTest(w=w):
                self.assertEqual(area(w, h), w * h)

    def test_negative(self):
        with self.assertRaisesRegex(ValueError, "neg"):
            area(-1, 2)

    def test_mock(self):
        with mock.patch(f"{__name__}.area", return_value=9) as patched:
            self.assertEqual(area(1, 1), 9)
        patched.assert_called_once_with(1, 1)

    @unittest.expectedFailure
    def test_fails(self):
        self.assertEqual(area(1, 1), 2)


if __name__ == "__main__":
    suite = unittest.defaultTestLoader.loadTestsFromTestCase(Tests)
    result = unittest.TextTestRunner(stream=open("/dev/null", "w")).run(suite)
    print(result.testsRun, len(result.failures), len(result.errors), len(result.expectedFailures))
    sys.exit(not result.wasSuccessful())

# Output:
# 4 0 0 1
