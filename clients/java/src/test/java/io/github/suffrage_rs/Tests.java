package io.github.suffrage_rs;

import static io.github.suffrage_rs.FakeNode.PATIENCE;
import static io.github.suffrage_rs.FakeNode.granting;
import static io.github.suffrage_rs.FakeNode.leads;
import static io.github.suffrage_rs.FakeNode.refuses;

import java.io.IOException;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;

/** The unit tests: every static method of this class whose name begins with `test`. */
final class Tests {
    private static final long MINUTE = 60_000_000_000L;

    private Tests() {}

    public static void main(String[] arguments) throws IllegalAccessException {
        int failed = 0;
        Method[] methods = Tests.class.getDeclaredMethods();
        Arrays.sort(methods, Comparator.comparing(Method::getName));
        for (Method method : methods) {
            if (!method.getName().startsWith("test") || (arguments.length > 0 && !method.getName().contains(arguments[0]))) {
                continue;
            }
            try {
                method.invoke(null);
                System.out.println("ok " + method.getName());
            } catch (InvocationTargetException e) {
                failed++;
                System.out.println("FAILED " + method.getName());
                e.getCause().printStackTrace();
            }
        }
        System.exit(failed == 0 ? 0 : 1);
    }

    private static void equal(Object got, Object wanted) {
        if (!Objects.equals(got, wanted)) {
            throw new AssertionError("got " + got + ", wanted " + wanted);
        }
    }

    private static void isTrue(boolean condition, Object message) {
        if (!condition) {
            throw new AssertionError(message);
        }
    }

    /** A call that must throw. */
    @FunctionalInterface
    private interface Call {
        void run() throws Exception;
    }

    private static <E extends Exception> E fails(Class<E> kind, Call call) {
        try {
            call.run();
        } catch (Exception e) {
            if (kind.isInstance(e)) {
                return kind.cast(e);
            }
            throw new AssertionError("another error", e);
        }
        throw new AssertionError("no error");
    }

    private static <T> T await(CompletableFuture<T> future) throws InterruptedException, ExecutionException {
        try {
            return future.get(PATIENCE.toMillis(), TimeUnit.MILLISECONDS);
        } catch (TimeoutException e) {
            throw new AssertionError("it has not happened", e);
        }
    }

    private static Client client(String... endpoints) {
        return Client.builder().endpoints(endpoints).build();
    }

    // The state of a leadership.

    /** A leadership with the deadline 1000 and the margin 100, by a clock that the test sets. */
    private static Leadership at(long[] clock) {
        return new Leadership(7, 1000, 100, new Clock(() -> clock[0], null), Runnable::run, () -> clock[1]++);
    }

    static void testExpiredLeadershipNeverRevives() throws Exception {
        long[] clock = {999, 0};
        Leadership leadership = at(clock);
        leadership.check();
        clock[0] = 1000;
        leadership.extend(7, 5000);
        leadership.replace(7, 5000);
        equal(fails(LeadershipEndedException.class, leadership::check).reason(), EndReason.EXPIRED);
        clock[0] = 900;
        isTrue(!leadership.isValid(), "it revives");
        equal(leadership.deadline(), 1000L);
        equal(leadership.remaining(), Duration.ZERO);
        equal(await(leadership.whenEnded()), EndReason.EXPIRED);
        await(leadership.whenStopped());
        equal(clock[1], 1L);
    }

    static void testStopsAtTheMarginAndIsNotExtendedThen() {
        long[] clock = {0, 0};
        Leadership leadership = at(clock);
        leadership.extend(8, 2000);
        leadership.extend(7, 1500);
        equal(leadership.token(), 8L);
        clock[0] = 1899;
        equal(leadership.tick(), 1L);
        isTrue(!leadership.mustStop() && !leadership.whenStopped().isDone(), "it stops too early");
        clock[0] = 1900;
        equal(leadership.tick(), 100L);
        isTrue(leadership.mustStop() && leadership.whenStopped().isDone(), "it does not stop");
        leadership.extend(9, 9000);
        leadership.replace(9, 9000);
        isTrue(leadership.isValid(), "the work has time to stop");
        equal(leadership.deadline(), 2000L);
        leadership.replace(9, 1950);
        equal(leadership.deadline(), 1950L);
    }

    static void testResignEndsFirst() throws Exception {
        long[] clock = {500, 0};
        Leadership leadership = at(clock);
        boolean[] ended = new boolean[1];
        leadership.onEnd(() -> {
            ended[0] = !leadership.isValid();
            leadership.told(null);
        });
        isTrue(leadership.resign(PATIENCE), "the node was told");
        isTrue(ended[0], "the node was told before the end");
        leadership.extend(9, 5000);
        equal(leadership.endReason().get(), EndReason.RESIGNED);
        equal(leadership.deadline(), 500L);
        equal(clock[1], 1L);
    }

    static void testHandOverStopsTheWorkAndLeavesTheLease() throws Exception {
        long[] clock = {0, 0};
        Leadership leadership = at(clock);
        leadership.wantHandOver();
        await(leadership.whenHandOverWanted());
        await(leadership.whenStopped());
        leadership.extend(9, 5000);
        isTrue(leadership.isValid() && leadership.deadline() == 1000, "the lease has changed");
        leadership.lose();
        equal(leadership.endReason().get(), EndReason.LOST);
    }

    // The clock.

    static void testClockBoundsTheTime() {
        long[] time = {123_456_789, 3_000_000_000L};
        // The monotonic clock is at zero when the machine has run for 3 s.
        Clock clock = new Clock(() -> time[0], () -> (time[0] + time[1]) / 10_000_000 * 10_000_000);
        long last = 0;
        for (int i = 0; i < 100; i++) {
            time[0] += 777_777;
            isTrue(clock.latest() >= last, "the clock goes back");
            last = clock.latest();
            isTrue(clock.earliest() <= time[0] + time[1] && clock.latest() >= time[0] + time[1], "out of bounds");
        }
        isTrue(clock.latest() - clock.earliest() < 1_000_000, "the bounds are not close");
        // The machine is suspended for a minute.
        time[1] += MINUTE;
        isTrue(clock.latest() >= time[0] + time[1], "the suspend is not counted");
        isTrue(clock.earliest() <= time[0] + time[1], "the suspend is counted twice");
    }

    static void testUptimeIsParsed() throws Exception {
        byte[] text = "4208.08 1574.39\n".getBytes(StandardCharsets.US_ASCII);
        equal(Clock.parse(text, text.length), 4_208_080_000_000L);
        for (String wrong : List.of("", "4208 1.00", "4208.0 1", "4208.080 1", "x.00 1")) {
            byte[] bytes = wrong.getBytes(StandardCharsets.US_ASCII);
            fails(IOException.class, () -> Clock.parse(bytes, bytes.length));
        }
    }

    // Sessions.

    static void testLeadsRenewsAndResigns() throws Exception {
        try (FakeNode node = new FakeNode(granting(600)); Client client = client(node.endpoint())) {
            Leadership leadership = client.election("a/ü.").ttl(Duration.ofSeconds(1)).rank(3).lead();
            var campaign = node.expect("campaign");
            equal(campaign.path(), "/elections/a%2F%C3%BC%2E/campaign");
            equal(campaign.body().get("ttl"), "1000ms");
            equal(campaign.body().get("rank"), 3L);
            equal(campaign.session(), "");
            long first = leadership.deadline();
            for (int i = 0; i < 3; i++) {
                equal(node.expect("renew").session(), "0123");
            }
            leadership.check();
            isTrue(leadership.token() == 7 && leadership.deadline() > first, "it is not renewed");
            isTrue(leadership.resign(PATIENCE), "the node was told");
            equal(node.expect("resign").session(), "0123");
            equal(leadership.endReason().get(), EndReason.RESIGNED);
        }
    }

    static void testValidityCountsFromBeforeTheRequest() throws Exception {
        AtomicInteger campaigns = new AtomicInteger();
        FakeNode.Handler late = request -> {
            if (request.action().equals("campaign") && campaigns.incrementAndGet() == 1) {
                // The reply comes after its lease has ended.
                Thread.sleep(350);
            }
            return granting(300).answer(request);
        };
        try (FakeNode node = new FakeNode(late); Client client = client(node.endpoint())) {
            client.election("x").lead();
            node.expect("campaign");
            // It does not lead by the first reply: it asks again.
            equal(node.expect("campaign").session(), "0123");
        }
    }

    static void testDelayOfTheReplyShortensTheLease() throws Exception {
        FakeNode.Handler slow = request -> {
            if (request.action().equals("campaign")) {
                Thread.sleep(100);
            }
            return granting(10_000).answer(request);
        };
        try (FakeNode node = new FakeNode(slow); Client client = client(node.endpoint())) {
            Leadership leadership = client.election("x").lead();
            long received = node.expect("campaign").received();
            isTrue(leadership.deadline() <= received + 10_000_000_000L, "the lease is too long");
        }
    }

    static void testValidityOfARenewalCountsFromBeforeIt() throws Exception {
        FakeNode.Handler slow = request -> {
            if (request.action().equals("renew")) {
                Thread.sleep(100);
            }
            return granting(1000).answer(request);
        };
        try (FakeNode node = new FakeNode(slow); Client client = client(node.endpoint())) {
            Leadership leadership = client.election("x").lead();
            long first = leadership.deadline();
            long received = node.expect("renew").received();
            while (leadership.deadline() == first) {
                leadership.check();
                Thread.sleep(1);
            }
            // The next renewal is not due yet.
            isTrue(leadership.deadline() <= received + 1_000_000_000L, "the lease is too long");
        }
    }

    static void testNodeThatDoesNotAnswerRenewals() throws Exception {
        CountDownLatch release = new CountDownLatch(1);
        FakeNode.Handler silent = request -> {
            if (request.action().equals("renew")) {
                release.await();
            }
            return granting(400).answer(request);
        };
        try (FakeNode node = new FakeNode(silent); Client client = client(node.endpoint())) {
            Leadership leadership = client.election("x").stopMargin(Duration.ofMillis(100)).lead();
            long deadline = leadership.deadline();
            await(leadership.whenStopped());
            equal(leadership.deadline(), deadline);
            equal(await(leadership.whenEnded()), EndReason.EXPIRED);
            isTrue(Clock.now() >= deadline, "it has ended too early");
            // The replies come now.
            release.countDown();
            node.expect("resign");
            isTrue(!leadership.isValid(), "a late reply has revived the leadership");
        }
    }

    static void testConflictsOfRenewals() throws Exception {
        for (String reason : List.of("expired", "revoked")) {
            AtomicInteger renewals = new AtomicInteger();
            FakeNode.Handler conflict = request -> {
                if (request.action().equals("renew")) {
                    renewals.incrementAndGet();
                    return refuses(409, reason);
                }
                return granting(3000).answer(request);
            };
            try (FakeNode node = new FakeNode(conflict); Client client = client(node.endpoint())) {
                Leadership leadership = client.election("x").lead();
                await(leadership.whenStopped());
                boolean revoked = reason.equals("revoked");
                equal(leadership.isValid(), revoked);
                if (revoked) {
                    await(leadership.whenHandOverWanted());
                } else {
                    equal(await(leadership.whenEnded()), EndReason.LOST);
                }
                leadership.close();
                if (revoked) {
                    node.expect("resign");
                }
                equal(leadership.whenHandOverWanted().isDone(), revoked);
                equal(renewals.get(), 1);
            }
        }
    }

    static void testSupersededRenewalIsNoAnswer() throws Exception {
        AtomicInteger renewals = new AtomicInteger();
        FakeNode.Handler superseded = request -> request.action().equals("renew") && renewals.incrementAndGet() == 1
                ? refuses(409, "superseded")
                : granting(600).answer(request);
        try (FakeNode node = new FakeNode(superseded); Client client = client(node.endpoint())) {
            Leadership leadership = client.election("x").lead();
            for (int i = 0; i < 3; i++) {
                node.expect("renew");
            }
            leadership.check();
        }
    }

    static void testOneLeadershipAtATime() throws Exception {
        try (FakeNode node = new FakeNode(granting(5000)); Client client = client(node.endpoint())) {
            Leadership leadership = client.election("x").lead();
            fails(InUseException.class, () -> client.election("x").lead());
            client.election("y").lead();
            leadership.close();
            client.election("x").lead().check();
        }
    }

    static void testInterruptedCampaignResignsItsSession() throws Exception {
        // The client is interrupted between two requests, and while the node does not answer.
        for (boolean silent : new boolean[] {false, true}) {
            interruptedCampaignResigns(silent);
        }
    }

    private static void interruptedCampaignResigns(boolean silent) throws Exception {
        FakeNode.Handler queue = request -> {
            if (!request.action().equals("campaign")) {
                return granting(1000).answer(request);
            }
            if (silent && !request.session().isEmpty()) {
                // Until the end of the test.
                new CountDownLatch(1).await();
            }
            return new FakeNode.Response(202, "{\"session\":\"77\",\"queue_position\":1,\"retry_before_ms\":1000}");
        };
        try (FakeNode node = new FakeNode(queue); Client client = client(node.endpoint())) {
            CompletableFuture<Boolean> interrupted = new CompletableFuture<>();
            Thread thread = new Thread(() -> {
                try {
                    client.election("x").lead();
                    interrupted.complete(false);
                } catch (InterruptedException e) {
                    interrupted.complete(true);
                } catch (SuffrageException e) {
                    interrupted.completeExceptionally(e);
                }
            });
            thread.start();
            node.expect("campaign");
            equal(node.expect("campaign").session(), "77");
            thread.interrupt();
            isTrue(await(interrupted), "it leads");
            equal(node.expect("resign").session(), "77");
            thread.join();
            isTrue(client.acquire("x") != null, "the election is still in use");
        }
    }

    static void testEndpointsAreTriedInOrder() throws Exception {
        BlockingQueue<Throwable> errors = new LinkedBlockingQueue<>();
        try (FakeNode busy = new FakeNode(request -> refuses(503, ""));
                FakeNode node = new FakeNode(granting(5000));
                Client client = Client.builder()
                        .endpoints("http://127.0.0.1:1", busy.endpoint(), node.endpoint())
                        .onError(errors::add)
                        .build()) {
            client.election("x").lead().check();
            isTrue(errors.remove() instanceof IOException, errors);
            isTrue(errors.remove() instanceof NodeException refused && refused.status() == 503, errors);
            isTrue(errors.isEmpty(), errors);
        }
    }

    static void testErrorsForGood() throws Exception {
        for (int status : new int[] {400, 401, 404, 422}) {
            try (FakeNode node = new FakeNode(request -> refuses(status, "")); Client client = client(node.endpoint())) {
                NodeException refused = fails(NodeException.class, () -> client.election("x").lead());
                equal(refused.status(), status);
                equal(refused.isUnauthorized(), status == 401);
            }
        }
        Duration second = Duration.ofSeconds(1);
        try (Client client = client("http://127.0.0.1:1")) {
            fails(IllegalArgumentException.class, () -> client.election("x").ttl(second).stopMargin(second).lead());
            fails(IllegalArgumentException.class, () -> client.election(""));
        }
        for (String wrong : List.of("", "ftp://x", "127.0.0.1:7480", "unix:", "http://")) {
            fails(IllegalArgumentException.class, () -> client(wrong));
        }
    }

    static void testTokenIsReadAgainAndNotExposed() throws Exception {
        Path file = Files.createTempFile("suffrage", ".token");
        Files.writeString(file, "old\n");
        AtomicReference<String> right = new AtomicReference<>("Bearer old");
        FakeNode.Handler guarded = request ->
                right.get().equals(request.authorization()) ? granting(5000).answer(request) : refuses(401, "");
        try (FakeNode node = new FakeNode(guarded);
                Client client = Client.builder().endpoints(node.endpoint()).tokenFile(file).build()) {
            client.election("x").lead().close();
            right.set("Bearer new");
            Files.writeString(file, "new\n");
            client.election("x").lead().close();
            for (String endpoint : List.of("http://10.0.0.1:1", "http://localhost.example:1", "http://127.0.0.1.example:1")) {
                Client.Builder builder = Client.builder().endpoints(endpoint).tokenFile(file);
                fails(IllegalArgumentException.class, builder::build);
                builder.plain(true).build().close();
            }
        } finally {
            Files.delete(file);
        }
    }

    static void testDefaultEndpoints() throws Exception {
        Path socket = Files.createTempFile("suffrage", ".sock");
        Path none = Path.of("/no.sock");
        equal(Client.defaultEndpoints(none, null), List.of("http://127.0.0.1:7480"));
        equal(Client.defaultEndpoints(socket, ""), List.of("unix:" + socket));
        equal(Client.defaultEndpoints(none, "http://a:1, https://b:2"), List.of("http://a:1", "https://b:2"));
        equal(Client.defaultEndpoints(socket, "http://a:1"), List.of("unix:" + socket, "http://a:1"));
        Files.delete(socket);
    }

    static void testClosedClientResigns() throws Exception {
        try (FakeNode node = new FakeNode(granting(5000))) {
            Client client = client(node.endpoint());
            Leadership leadership = client.election("x").lead();
            client.close();
            node.expect("resign");
            equal(leadership.endReason().get(), EndReason.RESIGNED);
        }
    }

    static void testClosedClientWaitsForResignationsUnderWay() throws Exception {
        AtomicBoolean answered = new AtomicBoolean();
        FakeNode.Handler slow = request -> {
            if (request.action().equals("resign")) {
                Thread.sleep(300);
                answered.set(true);
            }
            return granting(5000).answer(request);
        };
        try (FakeNode node = new FakeNode(slow)) {
            Client client = client(node.endpoint());
            Leadership leadership = client.election("x").lead();
            Thread resigns = new Thread(leadership::close);
            resigns.start();
            node.expect("resign");
            client.close();
            equal(answered.get(), true);
            resigns.join();
        }
    }

    // Work.

    static void testRunCampaignsAgainAfterALoss() throws Exception {
        AtomicInteger renewals = new AtomicInteger();
        FakeNode.Handler twice = request -> request.action().equals("renew") && renewals.incrementAndGet() <= 2
                ? refuses(409, "expired")
                : granting(600).answer(request);
        try (FakeNode node = new FakeNode(twice); Client client = client(node.endpoint())) {
            AtomicInteger calls = new AtomicInteger();
            client.election("x").run(leadership -> {
                int call = calls.incrementAndGet();
                try {
                    if (call <= 2) {
                        // Until it is interrupted.
                        new CountDownLatch(1).await();
                    }
                } catch (InterruptedException e) {
                    if (call == 1) {
                        throw e;
                    }
                }
            });
            equal(calls.get(), 3);
            node.expect("resign");
            IOException failure = new IOException("failed");
            ExecutionException failed = fails(ExecutionException.class, () -> client.election("x").run(leadership -> {
                throw failure;
            }));
            equal(failed.getCause(), failure);
        }
    }

    static void testInterruptOfRunStopsTheWorkFirst() throws Exception {
        AtomicReference<String> order = new AtomicReference<>("");
        FakeNode.Handler noting = request -> {
            if (request.action().equals("resign")) {
                order.updateAndGet(text -> text + "resigned");
            }
            return granting(5000).answer(request);
        };
        try (FakeNode node = new FakeNode(noting); Client client = client(node.endpoint())) {
            Thread caller = Thread.currentThread();
            fails(InterruptedException.class, () -> client.election("x").run(leadership -> {
                caller.interrupt();
                try {
                    new CountDownLatch(1).await();
                } finally {
                    // The work takes its time to stop, and nobody resigns meanwhile.
                    Thread.sleep(100);
                    order.updateAndGet(text -> text + "stopped, ");
                }
            }));
            node.expect("resign");
            equal(order.get(), "stopped, resigned");
        }
    }

    // Connections.

    /** Starts to lead in another thread. */
    private static CompletableFuture<Leadership> leadAt(Client client) {
        return CompletableFuture.supplyAsync(() -> {
            try {
                return client.election("x").ttl(Duration.ofSeconds(1)).lead();
            } catch (SuffrageException | InterruptedException e) {
                throw new IllegalStateException(e);
            }
        });
    }

    /** A test with a socket. */
    @FunctionalInterface
    private interface SocketTest {
        void run(FakeSocket socket, CompletableFuture<Leadership> leading, BlockingQueue<Throwable> errors) throws Exception;
    }

    private static void withSocket(SocketTest test) throws Exception {
        Path folder = Files.createTempDirectory("suffrage");
        BlockingQueue<Throwable> errors = new LinkedBlockingQueue<>();
        try (FakeSocket socket = new FakeSocket(folder);
                Client client = Client.builder().endpoints(socket.endpoint()).onError(errors::add).build()) {
            CompletableFuture<Leadership> leading = leadAt(client);
            String request = socket.accept();
            isTrue(request.startsWith("POST /elections/x/campaign HTTP/1.1\nHost: localhost\n"), request);
            equal(Json.object(request.substring(request.indexOf('{'))), Map.of("ttl", "1000ms", "hold", "connection"));
            test.run(socket, leading, errors);
        } finally {
            Files.deleteIfExists(folder.resolve("node.sock"));
            Files.delete(folder);
        }
    }

    static void testLeadsByConnection() throws Exception {
        withSocket((socket, leading, errors) -> {
            long now = Clock.now();
            socket.writeHead();
            socket.event("{\"event\":\"waiting\",\"queue_position\":1}");
            socket.event("leading", 9, now + MINUTE, now);
            Leadership leadership = await(leading);
            leadership.check();
            equal(leadership.token(), 9L);
            equal(leadership.deadline(), now + MINUTE);
            socket.event("renewed", 12, now + MINUTE + 5, now);
            socket.event("{\"event\":\"an event of a later version\"}");
            socket.event("hand_over_wanted", 12, now + MINUTE + 7, now);
            await(leadership.whenHandOverWanted());
            await(leadership.whenStopped());
            equal(leadership.deadline(), now + MINUTE + 7);
            equal(leadership.token(), 12L);
            leadership.check();
            leadership.close();
            equal(leadership.endReason().get(), EndReason.RESIGNED);
            socket.awaitEnd();
        });
    }

    static void testLossOfTheConnection() throws Exception {
        for (String end : List.of("{\"event\":\"lost\",\"reason\":\"expired\"}", "no json", "")) {
            withSocket((socket, leading, errors) -> {
                socket.writeHead();
                socket.event("leading", 9, Clock.now() + MINUTE, Clock.now());
                Leadership leadership = await(leading);
                if (end.isEmpty()) {
                    socket.hangUp();
                } else {
                    socket.event(end);
                }
                equal(await(leadership.whenEnded()), EndReason.LOST);
                isTrue(leadership.deadline() <= Clock.now(), "it ends later");
            });
        }
    }

    static void testSilentNodeEndsTheLeadershipAtItsDeadline() throws Exception {
        withSocket((socket, leading, errors) -> {
            long deadline = Clock.now() + 300_000_000L;
            socket.writeHead();
            socket.event("leading", 9, deadline, Clock.now());
            Leadership leadership = await(leading);
            await(leadership.whenStopped());
            equal(await(leadership.whenEnded()), EndReason.EXPIRED);
            equal(leadership.deadline(), deadline);
            isTrue(Clock.now() >= deadline, "it has ended too early");
            socket.awaitEnd();
        });
    }

    static void testEventsThatMustNotMakeALeader() throws Exception {
        // The clock of the node is another, the lease is over, and the node hands over already.
        List<String> names = List.of("another clock", "expired", "hand_over_wanted");
        for (String name : names) {
            withSocket((socket, leading, errors) -> {
                socket.writeHead();
                long now = Clock.now();
                switch (name) {
                    case "another clock" -> socket.event("leading", 9, now + 2 * MINUTE, now + MINUTE);
                    case "expired" -> socket.event("leading", 9, now - 1, now - 2);
                    default -> socket.event("hand_over_wanted", 9, now + MINUTE, now);
                }
                isTrue(errors.poll(PATIENCE.toMillis(), TimeUnit.MILLISECONDS) instanceof IOException, "no error");
                socket.awaitEnd();
                isTrue(!leading.isDone(), "it leads");
                // The client comes again.
                socket.accept();
                socket.writeHead();
                socket.event("leading", 9, Clock.now() + MINUTE, Clock.now());
                await(leading).check();
            });
        }
    }

    static void testRefusedConnection() throws Exception {
        withSocket((socket, leading, errors) -> {
            String body = "{\"error\":\"ttl: is too long\"}";
            socket.write("HTTP/1.1 400 Bad Request\r\nContent-Length: " + body.length() + "\r\nX: y\r\n\r\n" + body);
            ExecutionException failed = fails(ExecutionException.class, () -> await(leading));
            Throwable cause = failed.getCause().getCause();
            isTrue(cause instanceof NodeException refused && refused.status() == 400, cause);
            isTrue(cause.getMessage().contains("ttl: is too long"), cause);
        });
    }

    // Helpers.

    static void testFence() throws Exception {
        Fence fence = new Fence(5);
        for (long token : new long[] {5, 7, 7}) {
            fence.check(token);
        }
        boolean[] written = new boolean[1];
        StaleTokenException stale = fails(StaleTokenException.class, () -> fence.update(6, () -> written[0] = true));
        isTrue(stale.token() == 6 && stale.greatest() == 7 && !written[0], stale);
        equal(fence.update(8, () -> "written"), "written");
        equal(fence.greatest(), 8L);
    }

    static void testJson() throws Exception {
        Map<String, Object> read = Json.object(" {\"a\":[1,-2.5,true,null,{}],\"b\":\"x\\n\\u00fc\\\"\",\"c\":9007199254740993}\n");
        equal(read.get("a"), Arrays.asList(1L, -2.5, true, null, Map.of()));
        equal(read.get("b"), "x\n\u00fc\"");
        equal(Json.integer(read, "c"), 9007199254740993L);
        equal(Json.integer(read, "b"), 0L);
        equal(Json.object(Json.write(Map.of("k\u0001\"\\", "v\n"))), Map.of("k\u0001\"\\", "v\n"));
        String deep = "{\"a\":" + "[".repeat(100) + "]".repeat(100) + "}";
        for (String wrong : List.of("", "[]", "{", "{\"a\"}", "{\"a\":1,}", "{} x", "{\"a\":\"", "{\"a\":99999999999999999999}", deep)) {
            fails(IOException.class, () -> Json.object(wrong));
        }
    }

    static void testLeaseOfAnotherToken() throws Exception {
        AtomicInteger renewals = new AtomicInteger();
        FakeNode.Handler growing = request -> request.action().equals("renew") && renewals.incrementAndGet() > 0
                ? leads(8, 600)
                : granting(600).answer(request);
        try (FakeNode node = new FakeNode(growing); Client client = client(node.endpoint())) {
            Leadership leadership = client.election("x").lead();
            node.expect("renew");
            node.expect("renew");
            equal(leadership.token(), 8L);
        }
    }
}
