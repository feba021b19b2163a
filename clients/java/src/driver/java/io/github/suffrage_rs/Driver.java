package io.github.suffrage_rs;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;

/** Runs the client for the suite in clients/suite, whose README has the protocol. */
final class Driver {
    /** A campaign and its leadership. */
    private static final class Participation {
        private final CountDownLatch over = new CountDownLatch(1);
        private Thread campaign;
        private Leadership leadership;
        private boolean resigned;
    }

    private final PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
    private final Map<List<Object>, Client> clients = new HashMap<>();
    private final Map<Long, Participation> parts = new ConcurrentHashMap<>();
    private final Map<String, Fence> fences = new HashMap<>();

    private Driver() {}

    public static void main(String[] arguments) throws IOException, InterruptedException {
        // The clock needs a moment to become exact.
        Clock.now();
        Driver driver = new Driver();
        driver.print("ready", Map.of("clock", "boottime"));
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            Map<String, Object> command = Json.object(line);
            if (Json.string(command, "op").equals("exit")) {
                break;
            }
            driver.execute(command);
        }
        driver.exit();
        System.exit(0);
    }

    private void execute(Map<String, Object> command) throws IOException {
        long id = Json.integer(command, "id");
        switch (Json.string(command, "op")) {
            case "lead" -> {
                Participation part = new Participation();
                parts.put(id, part);
                lead(id, part, command);
            }
            case "check" -> check(id);
            case "resign" -> start(() -> resign(parts.get(id)));
            case "value" -> start(() -> setValue(id, command.get("value")));
            case "leader" -> start(() -> leader(command));
            case "fence" -> fence(Json.string(command, "fence"), Json.integer(command, "token"));
            default -> throw new IOException("unknown command " + command);
        }
    }

    private static Thread start(Runnable task) {
        Thread thread = new Thread(null, task, "driver", 256 << 10);
        thread.setDaemon(true);
        thread.start();
        return thread;
    }

    private synchronized void print(String event, Map<String, ?> members) {
        Map<String, Object> line = new LinkedHashMap<>();
        line.put("event", event);
        line.putAll(members);
        out.println(Json.write(line));
        out.flush();
    }

    private Client client(Map<String, Object> command) {
        Object tokenFile = command.get("token_file");
        Object caFile = command.get("ca_file");
        List<Object> key = new ArrayList<>((List<?>) command.get("endpoints"));
        String[] endpoints = key.toArray(String[]::new);
        key.add(String.valueOf(tokenFile));
        key.add(String.valueOf(caFile));
        synchronized (clients) {
            return clients.computeIfAbsent(key, missing -> {
                Client.Builder builder = Client.builder().endpoints(endpoints);
                if (tokenFile instanceof String file) {
                    builder.tokenFile(Path.of(file));
                }
                if (caFile instanceof String file) {
                    builder.caFile(Path.of(file));
                }
                return builder.onError(error -> System.err.println("driver: " + error)).build();
            });
        }
    }

    private void lead(long id, Participation part, Map<String, Object> command) {
        try {
            Election election = client(command)
                    .election(Json.string(command, "election"))
                    .ttl(Duration.ofMillis(Json.integer(command, "ttl_ms")))
                    .stopMargin(Duration.ofMillis(Json.integer(command, "stop_margin_ms")))
                    .value(command.get("value") instanceof String value ? value : null);
            // Campaigns begin in the order of their commands.
            Client.Participation begun = election.begin();
            part.campaign = start(() -> campaign(id, part, election, begun));
        } catch (SuffrageException | IllegalArgumentException e) {
            error(id, part, e);
        }
    }

    private void error(long id, Participation part, Exception error) {
        print("error", Map.of("id", id, "kind", kind(error), "message", error.getMessage()));
        part.over.countDown();
    }

    private void campaign(long id, Participation part, Election election, Client.Participation begun) {
        try {
            Leadership leadership = election.lead(begun);
            long at = Clock.now();
            boolean resigned;
            synchronized (part) {
                part.leadership = leadership;
                resigned = part.resigned;
            }
            print("leading", Map.of("id", id, "token", leadership.token(), "at_ns", at));
            leadership.whenStopped().thenRun(() -> print("stop", Map.of("id", id, "at_ns", Clock.now())));
            leadership.whenHandOverWanted().thenRun(() -> print("hand_over_wanted", Map.of("id", id)));
            if (resigned) {
                start(() -> resign(part));
            }
            // The stop first, in any case.
            leadership.whenStopped().thenCompose(stopped -> leadership.whenEnded()).thenAccept(reason -> {
                String text = reason.name().toLowerCase(Locale.ROOT);
                print("ended", Map.of("id", id, "reason", text, "at_ns", leadership.deadline()));
                part.over.countDown();
            });
        } catch (InterruptedException e) {
            print("ended", Map.of("id", id, "reason", "cancelled", "at_ns", Clock.now()));
            part.over.countDown();
        } catch (NodeException e) {
            error(id, part, e);
        }
    }

    private static String kind(Exception error) {
        if (error instanceof NodeException refused) {
            return refused.isUnauthorized() ? "unauthorized" : "invalid";
        }
        if (error instanceof IllegalArgumentException) {
            return "invalid";
        }
        return error instanceof InUseException ? "in_use" : "other";
    }

    private void check(long id) {
        Participation part = parts.get(id);
        Leadership leadership = null;
        if (part != null) {
            synchronized (part) {
                leadership = part.leadership;
            }
        }
        long at = Clock.now();
        boolean valid = leadership != null;
        if (leadership != null) {
            try {
                leadership.check();
            } catch (LeadershipEndedException e) {
                valid = false;
            }
        }
        print("checked", Map.of("id", id, "valid", valid, "at_ns", at));
    }

    /** Resigns, or stops to wait. */
    private static void resign(Participation part) {
        if (part == null) {
            return;
        }
        Leadership leadership;
        synchronized (part) {
            part.resigned = true;
            leadership = part.leadership;
        }
        if (leadership == null && part.campaign != null) {
            part.campaign.interrupt();
        } else if (leadership != null) {
            leadership.close();
        }
    }

    private void setValue(long id, Object value) {
        Leadership leadership;
        synchronized (parts.get(id)) {
            leadership = parts.get(id).leadership;
        }
        try {
            leadership.setValue(value instanceof String text ? text : null);
            print("value_set", Map.of("id", id));
        } catch (SuffrageException | InterruptedException e) {
            print("value_refused", Map.of("id", id, "message", e.getMessage()));
        }
    }

    private void leader(Map<String, Object> command) {
        String name = Json.string(command, "election");
        Map<String, Object> members = new LinkedHashMap<>();
        members.put("election", name);
        try {
            client(command).election(name).leader().ifPresent(leader -> {
                members.put("node", leader.node());
                members.put("token", leader.token());
                leader.value().ifPresent(value -> members.put("value", value));
            });
            print("leader", members);
        } catch (SuffrageException | IOException | InterruptedException e) {
            members.put("message", e.getMessage());
            print("leader_unknown", members);
        }
    }

    private void fence(String name, long token) {
        boolean accepted = true;
        try {
            fences.computeIfAbsent(name, missing -> new Fence()).check(token);
        } catch (StaleTokenException e) {
            accepted = false;
        }
        print("fenced", Map.of("fence", name, "token", token, "accepted", accepted));
    }

    /** Resigns everything. */
    private void exit() throws InterruptedException {
        for (Participation part : parts.values()) {
            start(() -> resign(part));
        }
        for (Participation part : parts.values()) {
            part.over.await();
        }
        synchronized (clients) {
            clients.values().forEach(Client::close);
        }
    }
}
