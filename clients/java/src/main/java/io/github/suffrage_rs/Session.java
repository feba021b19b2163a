package io.github.suffrage_rs;

import java.io.IOException;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/** A session at a node: renewals and the resignation go to the node that gave it. */
final class Session {
    private static final long MILLISECOND = 1_000_000;
    /**
     * How long a node may wait before it answers the first campaign of a session: short, so that the client learns its
     * session, and notices a node that does not answer.
     */
    private static final long FIRST_WAIT = 1_000 * MILLISECOND;
    /** The same for later campaigns of the session. */
    private static final long LATER_WAIT = 10_000 * MILLISECOND;
    /** How long a client waits for a reply, besides the wait of a campaign. */
    static final long REPLY_TIMEOUT = 2_000 * MILLISECOND;
    /** The time between two campaigns at a node that answers at once. */
    private static final long CAMPAIGN_INTERVAL = 200 * MILLISECOND;
    /** How long a campaign that is given up waits until the node knows. */
    private static final long ABANDON_WAIT = 500 * MILLISECOND;
    /** Limits what a node may promise. It prevents an overflow. */
    private static final long LONGEST_VALIDITY = 24 * 3_600_000L;
    /** The greatest number of renewals without a reply. */
    private static final int MAX_IN_FLIGHT = 8;
    /** The shortest time between two renewals. */
    private static final long SHORTEST_RETRY = 20 * MILLISECOND;
    /** The longest time between two looks at the clock: timers stop while the machine is suspended. */
    static final long RECHECK = 500 * MILLISECOND;

    private final Election election;
    private final Client client;
    private final Endpoint endpoint;
    /** Called at the end of the leadership. */
    private final Runnable release;

    private final Clock clock = Clock.ofMachine();
    /** The id of the session, or null. */
    private String id;
    /** The length of the lease in nanoseconds, as far as the client knows. */
    private long ttl;

    private Leadership leadership;
    private long renewAt;
    private int inFlight;
    private Future<?> timer;

    Session(Election election, Endpoint endpoint, Runnable release) {
        this.election = election;
        this.client = election.client();
        this.endpoint = endpoint;
        this.release = release;
        this.ttl = election.ttlNanos();
    }

    /** The time that a node promises, in nanoseconds. */
    static long validity(Map<String, Object> body) {
        return Math.min(Json.integer(body, "valid_for_ms"), LONGEST_VALIDITY) * MILLISECOND;
    }

    /** Campaigns until it leads, or until the node cannot be used. `waited` tells whether it had a place in the queue. */
    Leadership campaign(boolean[] waited) throws NodeException, IOException, InterruptedException {
        boolean failed = false;
        while (true) {
            Map<String, Object> body = election.campaignBody();
            long wait = id == null ? FIRST_WAIT : LATER_WAIT;
            body.put("wait", wait / MILLISECOND + "ms");
            if (id != null) {
                body.put("session", id);
            }
            long sent = clock.earliest();
            try {
                var reply = Endpoint.await(post("campaign", body, wait + REPLY_TIMEOUT));
                failed = false;
                id = Json.string(reply.body(), "session");
                if (reply.status() == 200) {
                    long validFor = validity(reply.body());
                    ttl = ttl == 0 ? validFor : ttl;
                    if (sent + validFor > clock.latest()) {
                        return lead(Json.integer(reply.body(), "token"), sent + validFor);
                    }
                    // The reply took too long. The session leads, so that a campaign with it is a renewal.
                } else {
                    waited[0] = true;
                    if (Boolean.TRUE.equals(reply.body().get("your_turn"))) {
                        // The lease begins with the next request, which does not wait.
                        continue;
                    }
                }
            } catch (NodeException e) {
                if (e.isConflict("expired")) {
                    id = null;
                } else if (!e.isConflict("superseded")) {
                    abandon();
                    throw e;
                }
            } catch (IOException e) {
                if (failed || id == null) {
                    abandon();
                    throw e;
                }
                // The session has its place in the queue: one more try.
                failed = true;
            } catch (InterruptedException e) {
                abandon();
                throw e;
            }
            try {
                long rest = sent + CAMPAIGN_INTERVAL - clock.latest();
                Thread.sleep(Math.max(rest, 0) / MILLISECOND);
            } catch (InterruptedException e) {
                abandon();
                throw e;
            }
        }
    }

    private CompletableFuture<Endpoint.Reply> post(String action, Map<String, ?> body, long timeout) {
        return endpoint.post(Endpoint.path(election.name(), action), body, timeout);
    }

    /** Gives the session up. It waits a moment until the node knows, and goes on telling it in the background. */
    private void abandon() {
        if (id == null) {
            return;
        }
        CompletableFuture<Void> told = resign();
        told.whenComplete((done, error) -> {
            if (error != null) {
                client.report(error);
            }
        });
        try {
            told.get(ABANDON_WAIT, TimeUnit.NANOSECONDS);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        } catch (ExecutionException | TimeoutException e) {
            // The session ends at the node by itself.
        }
    }

    /**
     * Tells the node that the session is over, again and again until the node has answered, or until the session has expired
     * there in any case.
     */
    private CompletableFuture<Void> resign() {
        CompletableFuture<Void> done = new CompletableFuture<>();
        resign(done, clock.latest() + Math.max(2 * ttl, REPLY_TIMEOUT), SHORTEST_RETRY);
        return done;
    }

    private void resign(CompletableFuture<Void> done, long giveUp, long retry) {
        post("resign", Map.of("session", id), REPLY_TIMEOUT).whenComplete((reply, error) -> {
            Throwable cause = Endpoint.cause(error);
            boolean refused = cause instanceof NodeException e && (e.status() == 409 || e.isPermanent());
            if (error == null || refused) {
                done.complete(null);
            } else if (clock.latest() + retry >= giveUp) {
                done.completeExceptionally(new IOException(endpoint.name() + ": cannot resign: " + cause, cause));
            } else {
                Runnable again = () -> resign(done, giveUp, Math.min(2 * retry, REPLY_TIMEOUT));
                try {
                    client.scheduler().schedule(again, retry, TimeUnit.NANOSECONDS);
                } catch (RejectedExecutionException e) {
                    done.completeExceptionally(cause);
                }
            }
        });
    }

    private synchronized Leadership lead(long token, long deadline) {
        leadership = election.leadership(clock, token, deadline, endpoint, id, release);
        leadership.onEnd(() -> {
            if (leadership.endReason().equals(Optional.of(EndReason.LOST))) {
                leadership.told(null);
            } else {
                resign().whenComplete((done, error) -> leadership.told(error));
            }
        });
        renewAt = clock.latest() + spread(leadership.tick() / 3);
        plan(0);
        return leadership;
    }

    /** Up to a fifth less, so that the renewals of many elections do not come all at once. */
    private static long spread(long span) {
        return span - ThreadLocalRandom.current().nextLong(Math.max(span / 5, 1));
    }

    /** Looks at the clock after this time. */
    private void plan(long delay) {
        if (timer != null) {
            timer.cancel(false);
        }
        try {
            timer = client.scheduler().schedule(this::look, Math.max(delay, 0), TimeUnit.NANOSECONDS);
        } catch (RejectedExecutionException e) {
            // The client is closed, and its leaderships have ended.
            leadership.stop();
        }
    }

    /** Renews if it is due, and stops or ends the leadership if that is due. */
    private synchronized void look() {
        long left = leadership.tick();
        if (leadership.endReason().isPresent()) {
            return;
        }
        long now = clock.latest();
        long next = left;
        if (!leadership.isStopping()) {
            if (now >= renewAt) {
                renewAt = now + Math.max(left / 3, SHORTEST_RETRY);
                if (inFlight < MAX_IN_FLIGHT) {
                    renew(Math.max(left / 2, SHORTEST_RETRY));
                }
            }
            next = Math.min(left, renewAt - now);
        }
        plan(Math.min(next, RECHECK));
    }

    /** Sends a renewal. The clock is read just before. */
    private void renew(long timeout) {
        inFlight++;
        long sent = clock.earliest();
        post("renew", Map.of("session", id), timeout).whenComplete((reply, error) -> judge(sent, reply, error));
    }

    /** Changes the leadership as the reply to a renewal says. All changes look at the clock first. */
    private synchronized void judge(long sent, Endpoint.Reply reply, Throwable error) {
        inFlight--;
        if (error == null) {
            leadership.extend(Json.integer(reply.body(), "token"), sent + validity(reply.body()));
        } else if (Endpoint.cause(error) instanceof NodeException refused && refused.status() == 409) {
            if (refused.reason().equals("revoked")) {
                leadership.wantHandOver();
            } else if (!refused.reason().equals("superseded")) {
                leadership.lose();
            }
        } else if (leadership.isValid()) {
            Throwable cause = Endpoint.cause(error);
            client.report(new IOException(endpoint.name() + ": cannot renew: " + cause, cause));
        }
        long left = leadership.tick();
        long now = clock.latest();
        if (error == null) {
            // Earlier if two more round trips would not fit into the rest.
            renewAt = now + Math.min(spread(left / 3), left - 2 * (now - sent));
        } else if (left / 10 > SHORTEST_RETRY) {
            renewAt = Math.min(renewAt, now + spread(left / 10));
        }
        plan(0);
    }
}
