"""The service: it owns partitions of a log, and decides the requests in them."""

from fair_allocator.service.loop import Service, Subscriber, calm_collector
from fair_allocator.service.settings import FilePool, ServiceSettings

__all__ = ["calm_collector", "FilePool", "Service", "ServiceSettings", "Subscriber"]
