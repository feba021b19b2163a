package io.github.suffrage_rs;

import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.net.http.HttpTimeoutException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/** A node that a client can ask. */
final class Endpoint {
    /** A reply with a status of 2xx. */
    record Reply(int status, Map<String, Object> body) {}

    private final String name;
    /** The path of the Unix socket, or null. */
    private final Path socket;

    private final URI base;
    private final HttpClient http;
    private final BearerToken token;

    private Endpoint(String name, Path socket, URI base, HttpClient http, BearerToken token) {
        this.name = name;
        this.socket = socket;
        this.base = base;
        this.http = http;
        this.token = token;
    }

    /** Reads an endpoint: `unix:/path`, `http://host:port` or `https://host:port`. */
    static Endpoint of(String text, HttpClient http, BearerToken token) {
        if (text.startsWith("unix:") && text.length() > 5) {
            return new Endpoint(text, Path.of(text.substring(5).replaceFirst("^//", "")), null, http, token);
        }
        URI base = null;
        try {
            base = URI.create(text.replaceFirst("/+$", ""));
        } catch (IllegalArgumentException e) {
            // Refused below.
        }
        boolean web = base != null && ("http".equals(base.getScheme()) || "https".equals(base.getScheme()));
        if (!web || base.getHost() == null) {
            throw new IllegalArgumentException(
                    "endpoints: \"" + text + "\" is not like http://host:7480, https://host:7480 or unix:/path");
        }
        return new Endpoint(text, null, base, http, token);
    }

    String name() {
        return name;
    }

    boolean isLocal() {
        return socket != null;
    }

    Path socket() {
        return socket;
    }

    /** Tells whether a token would leave this machine without encryption. */
    boolean exposesToken() {
        if (isLocal() || "https".equals(base.getScheme())) {
            return false;
        }
        String host = base.getHost().toLowerCase(Locale.ROOT);
        // A name that only begins with 127. is not an address.
        boolean loopback = host.matches("127\\.[0-9]{1,3}\\.[0-9]{1,3}\\.[0-9]{1,3}") || host.equals("[::1]");
        return !loopback && !host.equals("localhost");
    }

    /** The path of an action of an election. */
    static String path(String election, String action) {
        return path(election) + "/" + action;
    }

    /** The path of an election. */
    static String path(String election) {
        StringBuilder path = new StringBuilder("/elections/");
        for (byte b : election.getBytes(StandardCharsets.UTF_8)) {
            boolean plain = b >= '0' && b <= '9' || b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b == '-' || b == '_';
            path.append(plain ? String.valueOf((char) b) : String.format("%%%02X", b));
        }
        return path.toString();
    }

    /** Sends a request. The future fails with a NodeException or an IOException. Whoever cancels it hangs up. */
    CompletableFuture<Reply> post(String path, Map<String, ?> body, long timeout) {
        return exchange(path, Json.write(body), timeout);
    }

    /** Asks a question, as {@link #post} sends a request. */
    CompletableFuture<Reply> get(String path, long timeout) {
        return exchange(path, null, timeout);
    }

    private CompletableFuture<Reply> exchange(String path, String body, long timeout) {
        CompletableFuture<Reply> reply = new CompletableFuture<>();
        if (isLocal()) {
            String request = SocketExchange.request(body == null ? "GET" : "POST", path, body);
            SocketExchange.start(reply, name, socket, request);
        } else {
            attempt(reply, path, body);
        }
        return reply.orTimeout(timeout, TimeUnit.NANOSECONDS);
    }

    /** Sends a request, without a body a GET. */
    private void attempt(CompletableFuture<Reply> reply, String path, String body) {
        HttpRequest.Builder request = HttpRequest.newBuilder(URI.create(base + path));
        if (body != null) {
            request.header("Content-Type", "application/json").POST(HttpRequest.BodyPublishers.ofString(body));
        }
        String sent = token == null ? null : token.get();
        if (sent != null) {
            request.header("Authorization", "Bearer " + sent);
        }
        var exchange = http.sendAsync(request.build(), HttpResponse.BodyHandlers.ofString(StandardCharsets.UTF_8));
        reply.whenComplete((done, error) -> exchange.cancel(true));
        exchange.whenComplete((response, error) -> {
            if (error != null) {
                reply.completeExceptionally(error);
            } else if (response.statusCode() == 401 && sent != null && token.changed(sent)) {
                attempt(reply, path, body);
            } else {
                try {
                    reply.complete(judge(name, response.statusCode(), response.body()));
                } catch (NodeException | IOException e) {
                    reply.completeExceptionally(e);
                }
            }
        });
    }

    /** The reply, or the error that the node has answered. */
    static Reply judge(String endpoint, int status, String body) throws NodeException, IOException {
        if (status >= 200 && status < 300) {
            return new Reply(status, Json.object(body));
        }
        Map<String, Object> problem;
        try {
            problem = Json.object(body);
        } catch (IOException e) {
            problem = Map.of("error", "status " + status);
        }
        throw new NodeException(endpoint, status, Json.string(problem, "reason"), Json.string(problem, "error"));
    }

    /** Waits for a reply. An interrupt hangs up. */
    static Reply await(CompletableFuture<Reply> reply) throws NodeException, IOException, InterruptedException {
        try {
            return reply.get();
        } catch (InterruptedException e) {
            reply.cancel(true);
            throw e;
        } catch (ExecutionException e) {
            Throwable cause = cause(e);
            if (cause instanceof NodeException refused) {
                throw refused;
            }
            if (cause instanceof IOException failed) {
                throw failed;
            }
            throw new IOException(cause);
        }
    }

    /** The error behind the exceptions of futures. */
    static Throwable cause(Throwable error) {
        Throwable cause = error;
        while ((cause instanceof ExecutionException || cause instanceof CompletionException) && cause.getCause() != null) {
            cause = cause.getCause();
        }
        return cause instanceof TimeoutException ? new HttpTimeoutException("no reply in time") : cause;
    }

    /** A bearer token in a file. */
    static final class BearerToken {
        private final Path file;
        private volatile String text;

        BearerToken(Path file) {
            this.file = file;
            try {
                text = read();
            } catch (IOException e) {
                throw new IllegalArgumentException("tokenFile: cannot read " + file + ": " + e.getMessage(), e);
            }
        }

        private String read() throws IOException {
            String line = Files.readString(file).strip();
            if (line.isEmpty() || line.chars().anyMatch(c -> c < ' ')) {
                throw new IOException("must have one line, the token");
            }
            return line;
        }

        String get() {
            return text;
        }

        /** Reads the file again, and tells whether the token differs from a token that was refused. */
        boolean changed(String refused) {
            try {
                text = read();
            } catch (IOException e) {
                return false;
            }
            return !text.equals(refused);
        }
    }
}
