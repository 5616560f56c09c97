"""Keys land where Kafka's own clients put them."""

import importlib
import warnings
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fair_allocator.errors import ConfigurationError
from fair_allocator.log.partitioner import murmur2, partition_for

with warnings.catch_warnings():
    # kafka-python reads its own files in a way that Python 3.11 frowns upon.
    warnings.simplefilter("ignore", DeprecationWarning)
    kafka_murmur2 = importlib.import_module("kafka.partitioner").murmur2

keys = st.binary(max_size=100)
counts = st.integers(1, 1_000)


@given(keys, counts)
def test_murmur2_is_kafka_pythons(key: bytes, partitions: int) -> None:
    assert partition_for(key, partitions) == (kafka_murmur2(key) & 0x7FFFFFFF) % partitions


@pytest.mark.parametrize(
    ("key", "hashed"),
    [
        # From the tests of Kafka's Java client.
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_murmur2_is_javas(key: bytes, hashed: int) -> None:
    assert murmur2(key) == hashed & 0x7FFFFFFF


@given(keys, counts)
def test_crc32_is_librdkafkas(key: bytes, partitions: int) -> None:
    assert partition_for(key, partitions, "crc32") == zlib.crc32(key) % partitions


def test_none_has_no_opinion() -> None:
    assert partition_for(b"pool", 8, "none") is None


def test_an_unknown_partitioner_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ConfigurationError, match=r"'md5'; choose one of murmur2, crc32, none"):
        partition_for(b"pool", 8, "md5")
