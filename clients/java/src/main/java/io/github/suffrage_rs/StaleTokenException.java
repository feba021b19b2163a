package io.github.suffrage_rs;

/** A token is smaller than the greatest token a fence has seen: the leadership of that token has ended. */
public final class StaleTokenException extends SuffrageException {
    private static final long serialVersionUID = 1;

    /** The refused token. */
    private final long token;
    /** The greatest token that the fence has seen. */
    private final long greatest;

    StaleTokenException(long token, long greatest) {
        super("token " + token + " is stale: a later leader has token " + greatest + "; stop, this leadership has ended");
        this.token = token;
        this.greatest = greatest;
    }

    /**
     * The refused token.
     *
     * @return the token
     */
    public long token() {
        return token;
    }

    /**
     * The greatest token that the fence has seen.
     *
     * @return the token
     */
    public long greatest() {
        return greatest;
    }
}
