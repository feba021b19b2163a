package io.github.suffrage_rs;

import java.io.BufferedInputStream;
import java.io.ByteArrayOutputStream;
import java.io.EOFException;
import java.io.IOException;
import java.io.InputStream;
import java.net.StandardProtocolFamily;
import java.net.UnixDomainSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.Channels;
import java.nio.channels.ClosedByInterruptException;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;
import java.util.ArrayDeque;
import java.util.Locale;
import java.util.Map;
import java.util.Queue;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.TimeUnit;

/** A leadership by a connection to the Unix socket of a node: the node renews for as long as the connection stays open. */
final class Connection {
    /** How long the client waits for the first event, in nanoseconds. */
    private static final long FIRST_TIMEOUT = 3_000_000_000L;
    /** The longest line in bytes. */
    private static final int LONGEST_LINE = 1 << 20;

    /** An event of the node, or the error that has ended the connection. */
    private record Event(Map<String, Object> line, Exception error) {
        String name() {
            return Json.string(line, "event");
        }
    }

    private final Election election;
    private final Client client;
    private final Endpoint endpoint;
    /** Called at the end of the leadership. */
    private final Runnable release;

    private final Clock clock = Clock.ofMachine();
    private final Queue<Event> events = new ArrayDeque<>();
    private SocketChannel channel;
    private Leadership leadership;

    Connection(Election election, Endpoint endpoint, Runnable release) {
        this.election = election;
        this.client = election.client();
        this.endpoint = endpoint;
        this.release = release;
    }

    /** Campaigns until it leads, or until the node cannot be used. `waited` tells whether it had a place in the queue. */
    Leadership campaign(boolean[] waited) throws NodeException, IOException, InterruptedException {
        Leadership led = null;
        try {
            open();
            long timeout = FIRST_TIMEOUT;
            while (led == null) {
                Event event = take(timeout);
                if (event.error() instanceof NodeException refused) {
                    throw refused;
                }
                if (event.error() != null) {
                    throw new IOException(event.error().getMessage(), event.error());
                }
                timeout = Long.MAX_VALUE;
                switch (event.name()) {
                    case "waiting" -> waited[0] = true;
                    case "leading" -> led = lead(event.line());
                    case "lost" -> throw new IOException(
                            "the node has ended the campaign: " + Json.string(event.line(), "reason"));
                    case "hand_over_wanted" -> throw new IOException("the node hands over");
                    default -> {
                        // An event of a later version.
                    }
                }
            }
            return led;
        } catch (ClosedByInterruptException e) {
            Thread.interrupted();
            throw new InterruptedException("interrupted while it connected");
        } finally {
            if (led == null) {
                close();
            }
        }
    }

    /** Connects, sends the campaign, and starts to read. */
    private void open() throws IOException {
        channel = SocketChannel.open(StandardProtocolFamily.UNIX);
        channel.connect(UnixDomainSocketAddress.of(endpoint.socket()));
        Map<String, Object> body = election.campaignBody();
        body.put("hold", "connection");
        byte[] content = Json.write(body).getBytes(StandardCharsets.UTF_8);
        String head = "POST " + Endpoint.path(election.name(), "campaign") + " HTTP/1.1\r\nHost: localhost\r\n"
                + "Content-Type: application/json\r\nContent-Length: " + content.length + "\r\n\r\n";
        ByteArrayOutputStream request = new ByteArrayOutputStream();
        request.writeBytes(head.getBytes(StandardCharsets.US_ASCII));
        request.writeBytes(content);
        ByteBuffer rest = ByteBuffer.wrap(request.toByteArray());
        while (rest.hasRemaining()) {
            channel.write(rest);
        }
        client.start(this::read);
    }

    /** Closes the connection: the node learns of it from the kernel. */
    private void close() {
        if (channel != null) {
            try {
                channel.close();
            } catch (IOException e) {
                client.report(e);
            }
        }
    }

    private void read() {
        try {
            InputStream in = new BufferedInputStream(Channels.newInputStream(channel));
            int status = readHead(in);
            boolean ok = status >= 200 && status < 300;
            InputStream body = new Chunks(in);
            if (!ok) {
                Endpoint.judge(endpoint.name(), status, readLine(body));
            }
            while (true) {
                on(new Event(Json.object(readLine(body)), null));
            }
        } catch (IOException | NodeException e) {
            on(new Event(Map.of(), e));
        } finally {
            close();
        }
    }

    /** Reads the status and the headers. The bodies of events and of errors differ in their transfer coding. */
    private int readHead(InputStream in) throws IOException {
        String[] status = readLine(in).split(" ", 3);
        if (status.length < 2 || !status[0].startsWith("HTTP/1.") || !status[1].matches("[1-5][0-9][0-9]")) {
            throw new IOException("the answer is not HTTP");
        }
        boolean chunked = false;
        for (String line = readLine(in); !line.isEmpty(); line = readLine(in)) {
            String[] header = line.toLowerCase(Locale.ROOT).split(":", 2);
            chunked |= header[0].equals("transfer-encoding") && header.length == 2 && header[1].strip().equals("chunked");
            if (header[0].equals("content-length") && header.length == 2) {
                return readSized(in, Integer.parseInt(status[1]), header[1].strip());
            }
        }
        if (!chunked) {
            throw new IOException("the answer with status " + status[1] + " is not a stream");
        }
        return Integer.parseInt(status[1]);
    }

    /** Reads an answer with a length: it is not a stream of events, but an error. */
    private int readSized(InputStream in, int status, String length) throws IOException {
        while (!readLine(in).isEmpty()) {
            // The rest of the headers.
        }
        if (!length.matches("[0-9]{1,6}")) {
            throw new IOException("the answer is too long: " + length + " bytes");
        }
        String body = new String(in.readNBytes(Integer.parseInt(length)), StandardCharsets.UTF_8);
        try {
            Endpoint.judge(endpoint.name(), status, body);
        } catch (NodeException e) {
            throw new RefusedException(e);
        }
        throw new IOException("the answer is not a stream of events: " + body);
    }

    /** Carries the error of a node through code that reads. */
    private static final class RefusedException extends IOException {
        private static final long serialVersionUID = 1;

        RefusedException(NodeException cause) {
            super(cause.getMessage(), cause);
        }
    }

    /** A line without its end. */
    private static String readLine(InputStream in) throws IOException {
        ByteArrayOutputStream line = new ByteArrayOutputStream();
        for (int b = in.read(); b != '\n'; b = in.read()) {
            if (b < 0) {
                throw new EOFException("the node has closed the connection");
            }
            if (line.size() >= LONGEST_LINE) {
                throw new IOException("a line of the answer is too long");
            }
            line.write(b);
        }
        return line.toString(StandardCharsets.UTF_8).stripTrailing();
    }

    /** The content of a body in chunks. */
    private static final class Chunks extends InputStream {
        private final InputStream in;
        private int left;
        private boolean begun;

        Chunks(InputStream in) {
            this.in = in;
        }

        @Override
        public int read() throws IOException {
            if (left == 0) {
                if (begun) {
                    readLine(in);
                }
                begun = true;
                String size = readLine(in).split(";", 2)[0].strip();
                if (!size.matches("[0-9a-fA-F]{1,7}")) {
                    throw new IOException("the length of a chunk is not valid: " + size);
                }
                left = Integer.parseInt(size, 16);
                if (left == 0) {
                    return -1;
                }
            }
            left--;
            return in.read();
        }
    }

    /** An event was read. */
    private synchronized void on(Event event) {
        if (leadership == null) {
            events.add(event);
            notifyAll();
        } else {
            judge(event);
        }
    }

    /** Waits for the next event. */
    private synchronized Event take(long timeout) throws IOException, InterruptedException {
        long begin = System.nanoTime();
        while (events.isEmpty()) {
            long left = timeout - (System.nanoTime() - begin);
            if (left <= 0) {
                throw new IOException("no answer in time");
            }
            wait(Math.min(left / 1_000_000 + 1, 60_000));
        }
        Event event = events.remove();
        return event.error() instanceof RefusedException refused ? new Event(Map.of(), (NodeException) refused.getCause()) : event;
    }

    /** The node says that this client leads. */
    private synchronized Leadership lead(Map<String, Object> line) throws IOException {
        checkClock(line);
        long deadline = Json.integer(line, "deadline_ns");
        if (deadline <= clock.latest()) {
            throw new IOException("the lease had expired before the node's event arrived");
        }
        String session = Json.string(line, "session");
        Leadership begun =
                election.leadership(clock, Json.integer(line, "token"), deadline, endpoint, session, release);
        begun.onEnd(() -> {
            close();
            begun.told(null);
        });
        leadership = begun;
        while (!events.isEmpty()) {
            judge(events.remove());
        }
        plan(0);
        return begun;
    }

    /**
     * Throws if the deadline of an event cannot be compared with the clock of this process. The node wrote the event before
     * now: a later time is of another clock, for example in a container with a time namespace or an uptime of its own.
     */
    private void checkClock(Map<String, Object> line) throws IOException {
        long now = clock.latest();
        long node = Json.integer(line, "now_ns");
        if (node > now || node == 0) {
            throw new IOException("the clock of the node shows " + node + " ns, and the clock of this process " + now
                    + " ns: they do not share CLOCK_BOOTTIME; use the node's HTTP address instead of its socket");
        }
    }

    /** Changes the leadership as an event says. All changes look at the clock first. */
    private void judge(Event event) {
        String name = event.name();
        if (event.error() != null || name.equals("lost") || name.equals("waiting")) {
            leadership.lose();
            return;
        }
        if (!name.equals("renewed") && !name.equals("hand_over_wanted")) {
            // An event of a later version.
            return;
        }
        long token = Json.integer(event.line(), "token");
        try {
            checkClock(event.line());
        } catch (IOException e) {
            client.report(e);
            leadership.lose();
            return;
        }
        leadership.replace(token, Json.integer(event.line(), "deadline_ns"));
        if (name.equals("hand_over_wanted")) {
            leadership.wantHandOver();
        }
    }

    /** Looks at the clock after this time. */
    private void plan(long delay) {
        try {
            client.scheduler().schedule(this::look, Math.max(delay, 0), TimeUnit.NANOSECONDS);
        } catch (RejectedExecutionException e) {
            // The client is closed, and its leaderships have ended.
            leadership.stop();
        }
    }

    private void look() {
        long left = leadership.tick();
        if (leadership.endReason().isEmpty()) {
            plan(Math.min(left, Session.RECHECK));
        }
    }
}
