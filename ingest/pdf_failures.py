"""Decides what a failure of pypdf is: what its code runs into on bytes that are no PDF, beside its own errors."""

from __future__ import annotations

BAD_DATA = (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError, AssertionError, OverflowError)
