package io.github.suffrage_rs;

import java.io.IOException;
import java.io.InputStream;
import java.net.http.HttpClient;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.security.KeyStore;
import java.security.cert.Certificate;
import java.security.cert.CertificateFactory;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.ThreadFactory;
import java.util.function.Consumer;
import java.util.stream.Stream;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManagerFactory;

/**
 * A client of a cluster. It can lead many elections, each at most once at a time. Several threads may use it at once.
 *
 * <p>Safety depends on these rules. The validity of a reply counts from the moment just before its request was sent. At the
 * end of the validity the leadership is over, whatever replies come later. Closing a leadership ends it first, and tells the
 * node then.
 */
public final class Client implements AutoCloseable {
    /** The Unix socket of a node on this machine. */
    public static final String DEFAULT_SOCKET = "/run/suffrage/suffrage.sock";

    private static final String DEFAULT_URL = "http://127.0.0.1:7480";

    private final List<Endpoint> endpoints = new ArrayList<>();
    private final Consumer<? super Throwable> onError;
    /** Looks at the clock and renews. Its tasks do not block. */
    private final ScheduledThreadPoolExecutor scheduler;
    /** Runs the code of users and what blocks. */
    private final ExecutorService executor;
    /** The elections that this client leads or waits to lead. */
    private final Map<String, Participation> inUse = new HashMap<>();
    /** Leaderships whose end the node does not know: they have not ended, or the resignation is under way. */
    private final Set<Leadership> untold = ConcurrentHashMap.newKeySet();

    private Client(Builder settings) {
        onError = settings.onError;
        scheduler = new ScheduledThreadPoolExecutor(1, threads("suffrage-timer"));
        scheduler.setRemoveOnCancelPolicy(true);
        executor = Executors.newCachedThreadPool(threads("suffrage"));
        try {
            connect(settings);
        } catch (RuntimeException e) {
            close();
            throw e;
        }
    }

    private void connect(Builder settings) {
        Path tokenFile = orEnvironment(settings.tokenFile, "SUFFRAGE_TOKEN_FILE");
        Path caFile = orEnvironment(settings.caFile, "SUFFRAGE_CA");
        Endpoint.BearerToken token = tokenFile == null ? null : new Endpoint.BearerToken(tokenFile);
        // Without a proxy: the requests of a lease are short and must not wait for others.
        HttpClient.Builder http = HttpClient.newBuilder()
                .version(HttpClient.Version.HTTP_1_1)
                .proxy(HttpClient.Builder.NO_PROXY)
                .connectTimeout(Duration.ofSeconds(5))
                .executor(executor);
        if (caFile != null) {
            http.sslContext(trusting(caFile));
        }
        HttpClient built = http.build();
        List<String> texts = settings.endpoints;
        if (texts.isEmpty()) {
            texts = defaultEndpoints(Path.of(DEFAULT_SOCKET), System.getenv("SUFFRAGE_NODE"));
        }
        for (String text : texts) {
            Endpoint endpoint = Endpoint.of(text, built, token);
            if (token != null && !settings.plain && endpoint.exposesToken()) {
                throw new IllegalArgumentException("endpoints: " + text + " would receive the token without encryption: "
                        + "use https://, or plain(true) if a proxy or tunnel encrypts");
            }
            endpoints.add(endpoint);
        }
    }

    private static ThreadFactory threads(String name) {
        return task -> {
            Thread thread = new Thread(null, task, name, 256 << 10);
            thread.setDaemon(true);
            return thread;
        };
    }

    private static Path orEnvironment(Path value, String variable) {
        String text = System.getenv(variable);
        return value != null || text == null || text.isEmpty() ? value : Path.of(text);
    }

    /** The socket of this machine if there is one, and the nodes of the environment. */
    static List<String> defaultEndpoints(Path socket, String variable) {
        Stream<String> local = Files.exists(socket) ? Stream.of("unix:" + socket) : Stream.empty();
        Stream<String> listed = variable == null ? Stream.empty() : Stream.of(variable.split(","));
        List<String> all = Stream.concat(local, listed).map(String::strip).filter(text -> !text.isEmpty()).toList();
        return all.isEmpty() ? List.of(DEFAULT_URL) : all;
    }

    private static SSLContext trusting(Path caFile) {
        try (InputStream pem = Files.newInputStream(caFile)) {
            KeyStore store = KeyStore.getInstance(KeyStore.getDefaultType());
            store.load(null, null);
            for (Certificate authority : CertificateFactory.getInstance("X.509").generateCertificates(pem)) {
                store.setCertificateEntry("authority-" + store.size(), authority);
            }
            if (store.size() == 0) {
                throw new IOException("has no certificate in PEM");
            }
            TrustManagerFactory trust = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
            trust.init(store);
            SSLContext context = SSLContext.getInstance("TLS");
            context.init(null, trust.getTrustManagers(), null);
            return context;
        } catch (IOException | GeneralSecurityException e) {
            throw new IllegalArgumentException("caFile: " + caFile + ": " + e.getMessage(), e);
        }
    }

    /**
     * A client with the settings of the environment.
     *
     * @return the client
     */
    public static Client create() {
        return builder().build();
    }

    /**
     * A client with settings.
     *
     * @return the builder
     */
    public static Builder builder() {
        return new Builder();
    }

    /**
     * The election of this name. The client takes part when it is told to lead.
     *
     * @param name the name
     * @return the election, with the ttl of the node
     */
    public Election election(String name) {
        return new Election(this, name, Duration.ZERO, Duration.ZERO, 0, null);
    }

    /**
     * Resigns all leaderships, waits until the nodes know, and ends the threads of the client. Interrupt its campaigns and stop
     * the work first.
     */
    @Override
    public void close() {
        List.copyOf(untold).parallelStream().forEach(Leadership::close);
        // What a thread has begun is ended: a resignation that the node has not heard of.
        executor.shutdown();
        scheduler.shutdownNow();
    }

    /** A campaign or a leadership of this client. */
    static final class Participation {}

    /** A leadership has begun. */
    void leads(Leadership leadership) {
        untold.add(leadership);
        leadership.whenTold().whenComplete((done, error) -> untold.remove(leadership));
    }

    /** Marks the election as in use, or returns null if it is. */
    Participation acquire(String election) {
        Participation part = new Participation();
        synchronized (inUse) {
            return inUse.putIfAbsent(election, part) == null ? part : null;
        }
    }

    void release(String election, Participation part) {
        synchronized (inUse) {
            inUse.remove(election, part);
        }
    }

    /** Tells the user of an error after which the client tries again. */
    void report(Throwable error) {
        try {
            onError.accept(error);
        } catch (RuntimeException e) {
            // A log that fails must not stop renewals.
        }
    }

    List<Endpoint> endpoints() {
        return endpoints;
    }

    ScheduledThreadPoolExecutor scheduler() {
        return scheduler;
    }

    /** Runs a task in the background, or at once if the client is closed. */
    void execute(Runnable task) {
        try {
            executor.execute(task);
        } catch (RejectedExecutionException e) {
            task.run();
        }
    }

    /** Starts a task that waits for a node. */
    void start(Runnable task) {
        executor.execute(task);
    }

    /** The settings of a client. */
    public static final class Builder {
        private List<String> endpoints = List.of();
        private Path tokenFile;
        private Path caFile;
        private boolean plain;
        private Consumer<? super Throwable> onError = error -> {};

        private Builder() {}

        /**
         * The nodes, which are tried in order: {@code unix:/run/suffrage/suffrage.sock}, {@code http://127.0.0.1:7480} or
         * {@code https://node-1:7480}. Default: the socket of this machine if it exists, then those of the environment
         * variable SUFFRAGE_NODE, with commas between several; if there are none, http://127.0.0.1:7480.
         *
         * @param endpoints the endpoints
         * @return this builder
         */
        public Builder endpoints(String... endpoints) {
            this.endpoints = List.of(endpoints);
            return this;
        }

        /**
         * The file with the bearer token. Default: SUFFRAGE_TOKEN_FILE. It is read again if a node refuses the token.
         *
         * @param tokenFile the file
         * @return this builder
         */
        public Builder tokenFile(Path tokenFile) {
            this.tokenFile = tokenFile;
            return this;
        }

        /**
         * The certificates of trusted authorities for https, in PEM. Default: SUFFRAGE_CA, otherwise the authorities of the
         * Java runtime.
         *
         * @param caFile the file
         * @return this builder
         */
        public Builder caFile(Path caFile) {
            this.caFile = caFile;
            return this;
        }

        /**
         * Allows sending the token to another machine with http://, because a proxy or tunnel encrypts.
         *
         * @param plain whether it is allowed
         * @return this builder
         */
        public Builder plain(boolean plain) {
            this.plain = plain;
            return this;
        }

        /**
         * Is told of errors after which the client tries again, for a log. It must not block. Several threads may call it.
         *
         * @param onError the callback
         * @return this builder
         */
        public Builder onError(Consumer<? super Throwable> onError) {
            this.onError = onError;
            return this;
        }

        /**
         * Builds the client. It does not connect.
         *
         * @return the client
         * @throws IllegalArgumentException if a setting is wrong
         */
        public Client build() {
            return new Client(this);
        }
    }
}
