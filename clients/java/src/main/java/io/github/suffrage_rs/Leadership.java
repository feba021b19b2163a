package io.github.suffrage_rs;

import java.io.IOException;
import java.time.Duration;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Executor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/**
 * A leadership of an election. It is valid until its deadline, which renewals in the background move. It ends for good: by
 * {@link #close}, at its deadline, or when the node says so.
 */
public final class Leadership implements AutoCloseable {
    /** How long {@link #close} waits until the node knows. */
    private static final Duration CLOSE_TIMEOUT = Duration.ofSeconds(5);
    /** The pauses between two attempts to set a value, in milliseconds. */
    private static final long FIRST_BACKOFF = 20;

    private static final long LONGEST_BACKOFF = 2_000;

    /** Sends a value to the node of a leadership. */
    @FunctionalInterface
    interface ValueSender {
        /** Of two values, the one with the greater order counts. */
        CompletableFuture<Endpoint.Reply> send(String value, long order);
    }

    private final long margin;
    private final Clock clock;
    /** Runs what waits for the futures: the code of users must not delay renewals. */
    private final Executor executor;

    private final Runnable release;
    private final CompletableFuture<Void> stopped = new CompletableFuture<>();
    private final CompletableFuture<Void> handOver = new CompletableFuture<>();
    private final CompletableFuture<EndReason> over = new CompletableFuture<>();
    /** Completed when the node knows of the end, or need not know. */
    private final CompletableFuture<Void> told = new CompletableFuture<>();

    private long token;
    private long deadline;
    /** True when the work was told to stop. The deadline is not moved any more. */
    private boolean stopping;

    private boolean handing;
    private EndReason ended;
    private ValueSender valueSender;
    /** The number of values that were set. */
    private long values;
    /** Called once after the end: it tells the node, and completes `told`. */
    private Runnable afterEnd;

    /**
     * A leadership.
     *
     * @param deadline the moment at which it ends, on the clock
     * @param margin the stop margin in nanoseconds
     * @param release called at the end, with the lock of the leadership held
     */
    Leadership(long token, long deadline, long margin, Clock clock, Executor executor, Runnable release) {
        this.token = token;
        this.deadline = deadline;
        this.margin = margin;
        this.clock = clock;
        this.executor = executor;
        this.release = release;
    }

    /**
     * The fencing token: greater than the token of every leader before. Send it with every write. It may grow during a
     * leadership, for example when voters are replaced.
     *
     * @return the token
     */
    public synchronized long token() {
        return token;
    }

    /**
     * Throws if the leadership is not valid at this moment. Call it before each step of the work. A leadership that has ended
     * never becomes valid again.
     *
     * @throws LeadershipEndedException if the leadership has ended
     */
    public synchronized void check() throws LeadershipEndedException {
        lapse();
        if (ended != null) {
            throw new LeadershipEndedException(ended);
        }
    }

    /**
     * Tells whether the leadership is valid at this moment.
     *
     * @return false if it has ended
     */
    public synchronized boolean isValid() {
        lapse();
        return ended == null;
    }

    /**
     * The reason for the end.
     *
     * @return the reason, or nothing if the leadership is valid
     */
    public synchronized Optional<EndReason> endReason() {
        lapse();
        return Optional.ofNullable(ended);
    }

    /**
     * The moment at which the leadership ends unless it is renewed, or at which it has ended. Compare it with
     * {@link Clock#now}.
     *
     * @return nanoseconds
     */
    public synchronized long deadline() {
        lapse();
        return deadline;
    }

    /**
     * The time until the deadline.
     *
     * @return zero if the leadership has ended
     */
    public synchronized Duration remaining() {
        long now = lapse();
        return ended == null ? Duration.ofNanos(deadline - now) : Duration.ZERO;
    }

    /**
     * Completed when the work must stop: the stop margin before the deadline, when the node wants to hand over, or when the
     * leadership has ended. From then on, the lease is not renewed. The leadership stays valid until {@link #close} or the
     * deadline, so that the work has time to stop.
     *
     * @return a future for callers
     */
    public CompletableFuture<Void> whenStopped() {
        return stopped.copy();
    }

    /**
     * Completed when the node wants to hand over, because an operator moves the leader or the node stops. The sooner the
     * leadership is closed, the sooner the next candidate leads.
     *
     * @return a future for callers
     */
    public CompletableFuture<Void> whenHandOverWanted() {
        return handOver.copy();
    }

    /**
     * Completed when the leadership has ended.
     *
     * @return a future for callers
     */
    public CompletableFuture<EndReason> whenEnded() {
        return over.copy();
    }

    /**
     * Tells whether the work must stop.
     *
     * @return true from the moment of {@link #whenStopped} on
     */
    public synchronized boolean mustStop() {
        tick();
        return stopping;
    }

    /** Sets how values are sent: before the leadership is given to its user. */
    synchronized void sendValues(ValueSender sender) {
        valueSender = sender;
    }

    /**
     * Changes what this client says about itself while it leads. Returns when the node of this leadership has the value; other
     * nodes show it soon. Of several calls the last one counts.
     *
     * @param value up to 4096 bytes of UTF-8, or null for nothing
     * @throws LeadershipEndedException if the leadership has ended
     * @throws NodeException if the node refuses the value
     * @throws InterruptedException if the thread is interrupted
     */
    public void setValue(String value) throws LeadershipEndedException, NodeException, InterruptedException {
        ValueSender sender;
        long order;
        synchronized (this) {
            sender = valueSender;
            order = ++values;
        }
        for (long backoff = FIRST_BACKOFF; ; backoff = Math.min(2 * backoff, LONGEST_BACKOFF)) {
            check();
            try {
                Endpoint.await(sender.send(value == null ? "" : value, order));
                return;
            } catch (NodeException e) {
                if (e.status() == 409) {
                    throw new LeadershipEndedException(EndReason.LOST);
                }
                if (e.isPermanent()) {
                    throw e;
                }
            } catch (IOException e) {
                // The node does not answer: again, until the deadline.
            }
            Thread.sleep(backoff);
        }
    }

    /** Resigns, and waits up to 5 seconds until the node knows. Stop the work first. */
    @Override
    public void close() {
        try {
            resign(CLOSE_TIMEOUT);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    /**
     * Ends the leadership, and then tells the node, so that the next candidate leads at once. Stop the work first.
     *
     * @param timeout how long to wait until the node knows
     * @return false if the node does not know: then the lease ends at its deadline
     * @throws InterruptedException if this thread is interrupted while it waits; the leadership has ended all the same
     */
    public boolean resign(Duration timeout) throws InterruptedException {
        synchronized (this) {
            lapse();
            if (ended == null) {
                end(EndReason.RESIGNED);
            }
        }
        try {
            told.get(timeout.toNanos(), TimeUnit.NANOSECONDS);
            return true;
        } catch (ExecutionException | TimeoutException e) {
            return false;
        }
    }

    /** Ends an expired leadership. Called first at every input. Returns the clock's time. */
    private long lapse() {
        long now = clock.latest();
        if (ended == null && now >= deadline) {
            end(EndReason.EXPIRED);
        }
        return now;
    }

    /** Ends the leadership for good. The lock is held. */
    private void end(EndReason reason) {
        deadline = Math.min(deadline, clock.latest());
        ended = reason;
        beginStop();
        executor.execute(() -> over.complete(reason));
        release.run();
        if (afterEnd != null) {
            executor.execute(afterEnd);
        }
    }

    private void beginStop() {
        if (!stopping) {
            stopping = true;
            executor.execute(() -> stopped.complete(null));
        }
    }

    /** Sets what tells the node of the end: it must call {@link #told}. */
    synchronized void onEnd(Runnable action) {
        afterEnd = action;
        if (ended != null) {
            executor.execute(action);
        }
    }

    /** Completes when the node knows of the end, or cannot be told. */
    CompletableFuture<Void> whenTold() {
        return told;
    }

    /** The node knows of the end, or cannot be told if there is an error. */
    void told(Throwable error) {
        if (error == null) {
            told.complete(null);
        } else {
            told.completeExceptionally(error);
        }
    }

    /** Ends the leadership because the node has ended it. */
    synchronized void lose() {
        lapse();
        if (ended == null) {
            end(EndReason.LOST);
        }
    }

    /** Tells the work that the node wants to hand over. */
    synchronized void wantHandOver() {
        lapse();
        if (ended == null && !handing) {
            handing = true;
            executor.execute(() -> handOver.complete(null));
            beginStop();
        }
    }

    /** Tells the work to stop. The leadership stays valid until its deadline. */
    synchronized void stop() {
        lapse();
        beginStop();
    }

    synchronized boolean handedOver() {
        return handing;
    }

    /**
     * Moves the deadline of a leadership that has neither ended nor begun to stop. A renewal that was overtaken neither
     * shortens the lease nor takes its token back: the node keeps its promises.
     */
    synchronized void extend(long newToken, long until) {
        lapse();
        if (!stopping) {
            token = Math.max(token, newToken);
            deadline = Math.max(deadline, until);
        }
    }

    /**
     * Sets the deadline of a leadership by connection: its events come in order, so that the last one counts. A leadership
     * that has begun to stop is only shortened.
     */
    synchronized void replace(long newToken, long until) {
        lapse();
        if (ended == null) {
            token = Math.max(token, newToken);
        }
        if (ended == null && (!stopping || until < deadline)) {
            deadline = until;
            lapse();
        }
    }

    /**
     * Does what is due by the clock: stops the work at the margin, and ends the leadership at the deadline. Returns the time
     * until the next of them in nanoseconds.
     */
    synchronized long tick() {
        long now = lapse();
        if (now >= deadline - margin) {
            beginStop();
        }
        return (stopping ? deadline : deadline - margin) - now;
    }

    /** Whether the work was told to stop, without a look at the clock. */
    synchronized boolean isStopping() {
        return stopping;
    }
}
