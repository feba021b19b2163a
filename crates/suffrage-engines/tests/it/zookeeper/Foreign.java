// A candidate by Apache Curator: Foreign SERVERS latch|selector PATH IDENTITY SESSION_MS
// Prints `leads`, `lost` and, when asked by `leader`, `leader IDENTITY`. Resigns when told `resign`.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.concurrent.Semaphore;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.leader.LeaderLatchListener;
import org.apache.curator.framework.recipes.leader.LeaderSelector;
import org.apache.curator.framework.recipes.leader.LeaderSelectorListenerAdapter;
import org.apache.curator.retry.ExponentialBackoffRetry;

public class Foreign {
    static void say(String line) {
        System.out.println(line);
        System.out.flush();
    }

    public static void main(String[] arguments) throws Exception {
        String path = arguments[2];
        String identity = arguments[3];
        int session = Integer.parseInt(arguments[4]);
        CuratorFramework client = CuratorFrameworkFactory.newClient(
            arguments[0], session, session, new ExponentialBackoffRetry(100, 20));
        client.start();
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        if (arguments[1].equals("latch")) {
            LeaderLatch latch = new LeaderLatch(client, path, identity);
            latch.addListener(new LeaderLatchListener() {
                public void isLeader() { say("leads"); }
                public void notLeader() { say("lost"); }
            });
            latch.start();
            for (String line; (line = input.readLine()) != null; ) {
                if (line.equals("leader")) say("leader " + latch.getLeader().getId());
                if (line.equals("resign")) latch.close(LeaderLatch.CloseMode.NOTIFY_LEADER);
            }
        } else {
            Semaphore resign = new Semaphore(0);
            LeaderSelector selector = new LeaderSelector(client, path, new LeaderSelectorListenerAdapter() {
                public void takeLeadership(CuratorFramework client) throws Exception {
                    say("leads");
                    try {
                        resign.acquire();
                    } finally {
                        say("lost");
                    }
                }
            });
            selector.setId(identity);
            selector.start();
            for (String line; (line = input.readLine()) != null; ) {
                if (line.equals("leader")) say("leader " + selector.getLeader().getId());
                if (line.equals("resign")) resign.release();
            }
        }
        System.exit(0);
    }
}
