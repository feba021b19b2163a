package io.github.suffrage_rs;

import java.io.IOException;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import java.util.concurrent.ThreadLocalRandom;

/** An election of a client. It is immutable. */
public final class Election {
    /** The pauses after a round in which no endpoint could be used, in milliseconds. */
    private static final long FIRST_BACKOFF = 100;

    private static final long LONGEST_BACKOFF = 2_000;

    private final Client client;
    private final String name;
    private final Duration ttl;
    private final Duration stopMargin;
    private final long rank;
    /** The value of a leader, or null. */
    private final String value;

    Election(Client client, String name, Duration ttl, Duration stopMargin, long rank, String value) {
        if (name.isEmpty()) {
            throw new IllegalArgumentException("name: must not be empty");
        }
        this.client = client;
        this.name = name;
        this.ttl = ttl;
        this.stopMargin = stopMargin;
        this.rank = rank;
        this.value = value;
    }

    /**
     * The same election with another length of leases. Default: the ttl of the node.
     *
     * @param ttl the length, at least 1 ms
     * @return the election
     */
    public Election ttl(Duration ttl) {
        if (ttl.toMillis() < 1) {
            throw new IllegalArgumentException("ttl: must be at least 1 ms, not " + ttl);
        }
        return new Election(client, name, ttl, stopMargin, rank, value);
    }

    /**
     * The same election with another stop margin: the time before the deadline at which the work is told to stop. Default: a
     * tenth of the lease. It must be less than half of the ttl.
     *
     * @param stopMargin the margin
     * @return the election
     */
    public Election stopMargin(Duration stopMargin) {
        if (stopMargin.isNegative()) {
            throw new IllegalArgumentException("stopMargin: must not be negative: " + stopMargin);
        }
        return new Election(client, name, ttl, stopMargin, rank, value);
    }

    /**
     * The same election with a rank of this candidate. A greater rank is better. Default: 0.
     *
     * @param rank the rank
     * @return the election
     */
    public Election rank(long rank) {
        return new Election(client, name, ttl, stopMargin, rank, value);
    }

    /**
     * The same election with a value: what this client says about itself while it leads, such as its address. Default: none.
     *
     * @param value up to 4096 bytes of UTF-8
     * @return the election
     */
    public Election value(String value) {
        return new Election(client, name, ttl, stopMargin, rank, value);
    }

    /**
     * Asks the nodes, in order, who leads. Only a {@link Leadership} proves that this client leads.
     *
     * @return the leader, or nothing if nobody leads as far as the node that answers knows
     * @throws NodeException if a node refuses the question, and no other node answers it
     * @throws IOException if no node answers
     * @throws InterruptedException if the thread is interrupted
     */
    public Optional<Leader> leader() throws NodeException, IOException, InterruptedException {
        NodeException refused = null;
        IOException failed = new IOException("there is no endpoint");
        for (Endpoint endpoint : client.endpoints()) {
            try {
                Map<String, Object> body =
                        Endpoint.await(endpoint.get(Endpoint.path(name), Session.REPLY_TIMEOUT)).body();
                if (body.get("leader") == null) {
                    return Optional.empty();
                }
                Optional<String> told = Optional.ofNullable(body.get("value")).map(String::valueOf);
                return Optional.of(new Leader(Json.integer(body, "leader"), Json.integer(body, "token"), told));
            } catch (NodeException e) {
                refused = e;
            } catch (IOException e) {
                failed = new IOException(endpoint.name() + ": " + e, e);
            }
        }
        if (refused != null) {
            throw refused;
        }
        throw failed;
    }

    /**
     * The name of the election.
     *
     * @return the name
     */
    public String name() {
        return name;
    }

    /**
     * Campaigns until this client leads. It tries the endpoints in order, again and again. Interrupt the thread to stop.
     *
     * @return the leadership, to be closed when the work has stopped
     * @throws InUseException if this client leads the election already, or waits to lead it
     * @throws NodeException if a node refuses the request, and another try cannot help
     * @throws InterruptedException if the thread is interrupted: the campaign has ended
     */
    public Leadership lead() throws SuffrageException, InterruptedException {
        return lead(begin());
    }

    /** Marks the election as in use by this client. */
    Client.Participation begin() throws InUseException {
        if (!ttl.isZero() && stopMargin.multipliedBy(2).compareTo(ttl) >= 0) {
            throw new IllegalArgumentException("stopMargin: must be less than half of the ttl (" + ttl + "), not " + stopMargin);
        }
        Client.Participation part = client.acquire(name);
        if (part == null) {
            throw new InUseException(name);
        }
        return part;
    }

    /** Campaigns, after {@link #begin}. */
    Leadership lead(Client.Participation part) throws NodeException, InterruptedException {
        Leadership leadership = null;
        try {
            leadership = campaign(() -> client.release(name, part));
            client.leads(leadership);
            return leadership;
        } finally {
            if (leadership == null) {
                client.release(name, part);
            }
        }
    }

    /** Campaigns. `release` is for the end of the leadership. */
    private Leadership campaign(Runnable release) throws NodeException, InterruptedException {
        long backoff = FIRST_BACKOFF;
        while (true) {
            for (Endpoint endpoint : client.endpoints()) {
                boolean[] waited = new boolean[1];
                try {
                    if (endpoint.isLocal()) {
                        return new Connection(this, endpoint, release).campaign(waited);
                    }
                    return new Session(this, endpoint, release).campaign(waited);
                } catch (NodeException e) {
                    if (e.isPermanent()) {
                        throw e;
                    }
                    client.report(e);
                } catch (IOException e) {
                    client.report(new IOException(endpoint.name() + ": " + e, e));
                }
                if (waited[0]) {
                    backoff = FIRST_BACKOFF;
                }
            }
            // A random part, so that the clients of a node that is gone do not come back at once.
            Thread.sleep(backoff / 2 + ThreadLocalRandom.current().nextLong(backoff));
            backoff = Math.min(backoff * 2, LONGEST_BACKOFF);
        }
    }

    /** Work that only the leader does. */
    @FunctionalInterface
    public interface Work {
        /**
         * Works until the thread is interrupted, or until the work is done.
         *
         * @param leadership the leadership
         * @throws Exception if the work fails
         */
        void run(Leadership leadership) throws Exception;
    }

    /**
     * Leads, runs the work in a thread of its own, and resigns when the work has returned. The thread of the work is
     * interrupted when it must stop: the stop margin before the deadline, or when the node wants to hand over. If the
     * leadership was lost or handed over, this method waits until the work has returned, and campaigns again. It returns when
     * the work returns without having been interrupted.
     *
     * @param work the work
     * @throws InterruptedException if this thread is interrupted: the work was interrupted, too, and has returned or its
     *     lease has ended
     * @throws ExecutionException if the work failed without having been interrupted
     * @throws SuffrageException as {@link #lead}
     */
    public void run(Work work) throws SuffrageException, InterruptedException, ExecutionException {
        while (true) {
            Leadership leadership = lead();
            long length = leadership.remaining().toMillis();
            FutureTask<Void> task = new FutureTask<>(() -> {
                work.run(leadership);
                return null;
            });
            Thread worker = new Thread(task, "suffrage-" + name);
            boolean stopped;
            worker.start();
            try {
                stopped = await(leadership, worker);
            } catch (InterruptedException e) {
                // This interrupts the work, once.
                leadership.stop();
                join(worker, leadership);
                leadership.close();
                throw e;
            }
            leadership.close();
            try {
                task.get();
                if (!stopped) {
                    return;
                }
            } catch (ExecutionException e) {
                if (!stopped) {
                    throw e;
                }
                client.report(e.getCause());
            }
            if (leadership.handedOver()) {
                // Others lead first.
                Thread.sleep(length);
            }
        }
    }

    /** Waits until the work has returned, and interrupts it when it must stop. Tells whether it was interrupted. */
    private static boolean await(Leadership leadership, Thread worker) throws InterruptedException {
        var stopped = leadership.whenStopped();
        stopped.thenRun(worker::interrupt);
        worker.join();
        return stopped.isDone();
    }

    /** Waits until the work has returned or its leadership has ended, whatever interrupts this thread. */
    private static void join(Thread worker, Leadership leadership) {
        boolean interrupted = false;
        while (worker.isAlive() && leadership.isValid()) {
            try {
                worker.join(10);
            } catch (InterruptedException e) {
                interrupted = true;
            }
        }
        if (interrupted) {
            Thread.currentThread().interrupt();
        }
    }

    Client client() {
        return client;
    }

    /** The length of leases in nanoseconds, or zero. */
    long ttlNanos() {
        return ttl.toNanos();
    }

    /** The stop margin of a lease of this length, in nanoseconds. */
    long margin(long validFor) {
        return stopMargin.isZero() ? validFor / 10 : stopMargin.toNanos();
    }

    /** The members of every campaign. */
    Map<String, Object> campaignBody() {
        Map<String, Object> body = new LinkedHashMap<>();
        if (!ttl.isZero()) {
            body.put("ttl", ttl.toMillis() + "ms");
        }
        if (rank != 0) {
            body.put("rank", rank);
        }
        if (value != null) {
            body.put("value", value);
        }
        return body;
    }

    /** A leadership of this election. */
    Leadership leadership(
            Clock clock, long token, long deadline, Endpoint endpoint, String session, Runnable release) {
        long margin = margin(deadline - clock.earliest());
        Leadership leadership = new Leadership(token, deadline, margin, clock, client::execute, release);
        String path = Endpoint.path(name, "value");
        leadership.sendValues((value, order) -> endpoint.post(
                path, Map.of("session", session, "value", value, "order", order), Session.REPLY_TIMEOUT));
        return leadership;
    }
}
