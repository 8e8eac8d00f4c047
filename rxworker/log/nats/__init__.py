"""A log in NATS JetStream, for many machines."""

from rxworker.log.nats.log import NatsLog as NatsLog
