package io.github.suffrage_rs;

import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/** A node that answers as a test wants, and keeps all requests. */
final class FakeNode implements AutoCloseable {
    /** How long a test waits for a condition before it fails. */
    static final Duration PATIENCE = Duration.ofSeconds(20);

    /** A request that the node has received. */
    record Request(String action, String path, Map<String, Object> body, String authorization, long received) {
        String session() {
            return Json.string(body, "session");
        }
    }

    /** A response. */
    record Response(int status, String body) {}

    /** Answers a request. */
    @FunctionalInterface
    interface Handler {
        Response answer(Request request) throws InterruptedException;
    }

    private final HttpServer server;
    private final ExecutorService threads = Executors.newCachedThreadPool();
    private final BlockingQueue<Request> requests = new LinkedBlockingQueue<>();

    FakeNode(Handler handler) throws IOException {
        server = HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 0);
        server.setExecutor(threads);
        server.createContext("/", exchange -> answer(exchange, handler));
        server.start();
    }

    private void answer(HttpExchange exchange, Handler handler) throws IOException {
        String path = exchange.getRequestURI().getRawPath();
        String text = new String(exchange.getRequestBody().readAllBytes(), StandardCharsets.UTF_8);
        String authorization = exchange.getRequestHeaders().getFirst("Authorization");
        String action = path.substring(path.lastIndexOf('/') + 1);
        Request request = new Request(action, path, Json.object(text), authorization, Clock.now());
        requests.add(request);
        try {
            Response response = handler.answer(request);
            byte[] body = response.body().getBytes(StandardCharsets.UTF_8);
            exchange.sendResponseHeaders(response.status(), body.length);
            exchange.getResponseBody().write(body);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        } finally {
            exchange.close();
        }
    }

    String endpoint() {
        return "http://127.0.0.1:" + server.getAddress().getPort();
    }

    /** Waits for a request of this action, and passes over others. */
    Request expect(String action) throws InterruptedException {
        while (true) {
            Request request = requests.poll(PATIENCE.toMillis(), TimeUnit.MILLISECONDS);
            if (request == null) {
                throw new AssertionError("the node got no " + action);
            }
            if (request.action().equals(action)) {
                return request;
            }
        }
    }

    @Override
    public void close() {
        server.stop(0);
        threads.shutdownNow();
    }

    static Response leads(long token, long validForMillis) {
        return new Response(200, "{\"session\":\"0123\",\"token\":" + token + ",\"valid_for_ms\":" + validForMillis + "}");
    }

    static Response refuses(int status, String reason) {
        return new Response(status, "{\"error\":\"refused\",\"reason\":\"" + reason + "\"}");
    }

    /** Answers every campaign and renewal with a lease. */
    static Handler granting(long validForMillis) {
        return request -> request.action().equals("resign") ? new Response(200, "{\"within_ms\":0}") : leads(7, validForMillis);
    }
}
