-- A node reads the deliveries that one peer has not acknowledged, in their order.
CREATE INDEX deliveries_owed ON deliveries (peer, created_at_ms) WHERE is_acknowledged = 0;
