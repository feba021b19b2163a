package io.github.suffrage_rs;

import java.util.concurrent.Callable;

/**
 * A fence refuses tokens that are smaller than the greatest token it has seen. A resource server checks the token of each
 * write with it.
 *
 * <p>A check and a write are two steps, and a later leader may write in between. {@link #update} makes them one step within
 * one program. For a database, check in the transaction of the write: the README has the SQL.
 */
public final class Fence {
    private long greatest;

    /** A fence that has seen no token. */
    public Fence() {
        this(0);
    }

    /**
     * A fence that has seen this token, which was stored with the resource.
     *
     * @param greatest the token
     */
    public Fence(long greatest) {
        this.greatest = greatest;
    }

    /**
     * Checks a token. If it is accepted, smaller tokens are refused from now on.
     *
     * @param token the token of the write
     * @throws StaleTokenException if the fence has seen a greater token
     */
    public synchronized void check(long token) throws StaleTokenException {
        if (token < greatest) {
            throw new StaleTokenException(token, greatest);
        }
        greatest = token;
    }

    /**
     * Checks the token and writes, as one step: no write with a greater token happens between them.
     *
     * @param <T> the result of the write
     * @param token the token of the write
     * @param write the write, which is not called if the token is refused
     * @return the result of the write
     * @throws StaleTokenException if the fence has seen a greater token
     * @throws Exception if the write throws it
     */
    public synchronized <T> T update(long token, Callable<T> write) throws Exception {
        check(token);
        return write.call();
    }

    /**
     * The greatest token that the fence has seen, to be stored with the resource.
     *
     * @return the token, or zero if the fence has seen none
     */
    public synchronized long greatest() {
        return greatest;
    }
}
