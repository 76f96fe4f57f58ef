"""A child that writes more than its pipe holds when its standard input has ended."""

import sys

sys.stdin.buffer.read()
sys.stdout.buffer.write(bytes(3_000_000))
