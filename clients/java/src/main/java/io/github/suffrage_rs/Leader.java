package io.github.suffrage_rs;

import java.util.Optional;

/**
 * The leader of an election, as a node knows it: for people and load balancers. It may be old.
 *
 * @param node the id of the leader's node
 * @param token the leader's token
 * @param value what the leader says about itself
 */
public record Leader(long node, long token, Optional<String> value) {}
