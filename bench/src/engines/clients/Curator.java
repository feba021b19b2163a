// The loops of the benchmark by Apache Curator's LeaderLatch: Curator SERVERS TTL_MS. Commands: see driver.py.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.retry.ExponentialBackoffRetry;

public class Curator {
    static final long SETTLE_MS = 120;

    static void say(String line) {
        System.out.println(line);
        System.out.flush();
    }

    static CuratorFramework connect(String servers, int session) throws Exception {
        CuratorFramework client =
            CuratorFrameworkFactory.newClient(servers, session, 15000, new ExponentialBackoffRetry(100, 20));
        client.start();
        client.blockUntilConnected();
        return client;
    }

    static LeaderLatch start(CuratorFramework client, String name) throws Exception {
        LeaderLatch latch = new LeaderLatch(client, "/theirs/" + name, "theirs");
        latch.start();
        return latch;
    }

    static void handover(CuratorFramework[] clients, int rounds) throws Exception {
        LeaderLatch leader = start(clients[0], "handover");
        leader.await();
        StringBuilder times = new StringBuilder("times");
        for (int round = 1; round <= rounds; round++) {
            LeaderLatch next = start(clients[round % 2], "handover");
            AtomicLong at = new AtomicLong();
            Thread waiting = new Thread(() -> {
                try {
                    next.await();
                    at.set(System.nanoTime());
                } catch (Exception error) {
                    error.printStackTrace();
                }
            });
            waiting.start();
            Thread.sleep(SETTLE_MS);
            if (at.get() != 0) throw new IllegalStateException("the next latch leads before the leader has resigned");
            long begin = System.nanoTime();
            leader.close();
            waiting.join();
            times.append(' ').append(at.get() - begin);
            leader = next;
        }
        leader.close();
        say(times.toString());
    }

    static void acquire(CuratorFramework client, int names, long millis) throws Exception {
        AtomicLong count = new AtomicLong();
        CyclicBarrier ready = new CyclicBarrier(names + 1);
        List<Thread> threads = new ArrayList<>();
        for (int number = 0; number < names; number++) {
            String name = "acquire-" + number;
            Thread thread = new Thread(() -> {
                try {
                    // Also warms the virtual machine up.
                    for (int round = 0; round < 50; round++) once(client, name);
                    ready.await();
                    long end = System.nanoTime() + millis * 1_000_000;
                    while (System.nanoTime() < end) {
                        once(client, name);
                        count.incrementAndGet();
                    }
                } catch (Exception error) {
                    error.printStackTrace();
                }
            });
            thread.start();
            threads.add(thread);
        }
        ready.await();
        long begin = System.nanoTime();
        for (Thread thread : threads) thread.join();
        say("rate " + count.get() * 1e9 / (System.nanoTime() - begin));
    }

    static void once(CuratorFramework client, String name) throws Exception {
        LeaderLatch latch = start(client, name);
        latch.await();
        latch.close();
    }

    public static void main(String[] arguments) throws Exception {
        int session = Integer.parseInt(arguments[1]);
        CuratorFramework[] clients = {connect(arguments[0], session), null};
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = input.readLine()) != null; ) {
            String[] words = line.split(" ");
            if (words[0].equals("handover")) {
                if (clients[1] == null) clients[1] = connect(arguments[0], session);
                handover(clients, Integer.parseInt(words[1]));
            } else if (words[0].equals("acquire")) {
                acquire(clients[0], Integer.parseInt(words[1]), Long.parseLong(words[2]));
            } else if (words[0].equals("hold")) {
                for (int number = 0; number < Integer.parseInt(words[1]); number++) {
                    start(clients[0], "held-" + number).await();
                }
                say("held");
            } else if (words[0].equals("lead")) {
                start(clients[0], words[1]).await();
                say("leads");
            }
        }
        System.exit(0);
    }
}
