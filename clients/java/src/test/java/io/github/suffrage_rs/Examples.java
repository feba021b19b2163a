package io.github.suffrage_rs;

import java.sql.PreparedStatement;
import java.sql.SQLException;
import java.time.Duration;
import java.util.concurrent.ExecutionException;

/** The examples of the README: they compile. */
final class Examples {
    private Examples() {}

    private static void bill(long token) {
        System.out.println(token);
    }

    static void job() throws SuffrageException, InterruptedException, ExecutionException {
        try (Client client = Client.create()) {
            client.election("billing").ttl(Duration.ofSeconds(10)).run(leadership -> {
                while (true) {
                    bill(leadership.token());
                    Thread.sleep(1000); // interrupted before the lease ends
                }
            });
        }
    }

    static void steps(Client client, Thread worker) throws SuffrageException, InterruptedException {
        try (Leadership leadership = client.election("billing").lead()) { // returns when this program leads
            leadership.whenStopped().thenRun(worker::interrupt);
            leadership.check(); // throws LeadershipEndedException
        } // resigns
    }

    static boolean fence(java.sql.Connection connection, Leadership leadership) throws SQLException {
        try (PreparedStatement fence = connection.prepareStatement(
                "UPDATE leader_fence SET token = ? WHERE name = 'billing' AND token <= ?")) {
            fence.setLong(1, leadership.token());
            fence.setLong(2, leadership.token());
            return fence.executeUpdate() == 1;
        }
    }
}
