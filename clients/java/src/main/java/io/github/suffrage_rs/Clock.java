package io.github.suffrage_rs;

import java.io.IOException;
import java.io.RandomAccessFile;
import java.io.UncheckedIOException;
import java.util.function.LongSupplier;

/**
 * The clock of leases, in nanoseconds: CLOCK_BOOTTIME on Linux, which counts while the machine is suspended.
 *
 * <p>Java cannot read that clock. {@code /proc/uptime} shows it, rounded down to 10 ms, and {@link System#nanoTime} is
 * CLOCK_MONOTONIC, which runs at the same rate but stops during a suspend. A reading of both bounds their difference. Each
 * reading narrows the bounds, until they are as close as two readings can be. A reading outside of the bounds shows that the
 * machine was suspended in between, and the bounds begin anew. So {@link #earliest} is never after the time of the clock, and
 * {@link #latest} never before. A suspend of less than 10 ms can go unnoticed.
 *
 * <p>On other systems than Linux the clock is {@link System#nanoTime}.
 */
public final class Clock {
    /** The length of the steps of {@code /proc/uptime}. */
    private static final long STEP = 10_000_000;
    /** The difference of the bounds that is close enough. */
    private static final long CLOSE = 200_000;

    private static final Clock MACHINE = machine();

    private final LongSupplier monotonic;
    /** The file, or null if the system has none. */
    private final Uptime uptime;
    /** The bounds of the difference of the two clocks. */
    private long least = Long.MIN_VALUE / 4;

    private long greatest = Long.MAX_VALUE / 4;
    /** The results of the last calls: the bounds of the time do not go back when they narrow. */
    private long lastEarliest = Long.MIN_VALUE;

    private long lastLatest = Long.MIN_VALUE;

    /** Reads the uptime in nanoseconds. */
    interface Uptime {
        long read() throws IOException;
    }

    Clock(LongSupplier monotonic, Uptime uptime) {
        this.monotonic = monotonic;
        this.uptime = uptime;
    }

    private static Clock machine() {
        Clock clock = new Clock(System::nanoTime, openUptime());
        // Until a step of the file has passed while this thread was running.
        long begin = System.nanoTime();
        while (clock.uptime != null && !clock.isClose() && System.nanoTime() - begin < 50 * STEP) {
            clock.earliest();
        }
        return clock;
    }

    private static Uptime openUptime() {
        try {
            // Not a channel: an interrupt of a thread that reads would close it.
            @SuppressWarnings("resource")
            RandomAccessFile file = new RandomAccessFile("/proc/uptime", "r");
            byte[] text = new byte[64];
            Uptime uptime = () -> {
                file.seek(0);
                int length = file.read(text);
                return parse(text, length);
            };
            uptime.read();
            return uptime;
        } catch (IOException e) {
            return null;
        }
    }

    /** Parses the first number of the file, which has two decimals. */
    static long parse(byte[] text, int length) throws IOException {
        long hundredths = 0;
        int decimals = -1;
        for (int i = 0; i < length && text[i] != ' '; i++) {
            if (text[i] == '.') {
                decimals = 0;
            } else if (text[i] >= '0' && text[i] <= '9') {
                hundredths = hundredths * 10 + (text[i] - '0');
                decimals += decimals < 0 ? 0 : 1;
            } else {
                decimals = -1;
                break;
            }
        }
        if (decimals != 2) {
            throw new IOException("/proc/uptime does not begin with a number of two decimals");
        }
        return hundredths * STEP;
    }

    static Clock ofMachine() {
        return MACHINE;
    }

    /**
     * The time of the clock, and never before it.
     *
     * @return nanoseconds
     */
    public static long now() {
        return MACHINE.latest();
    }

    private synchronized boolean isClose() {
        return greatest - least < CLOSE;
    }

    /** A moment that has passed for certain: for the moment before a request. */
    synchronized long earliest() {
        if (uptime != null) {
            look();
            lastEarliest = Math.max(lastEarliest, monotonic.getAsLong() + least);
            return lastEarliest;
        }
        return monotonic.getAsLong();
    }

    /** A moment that has not passed yet, or passes just now: for comparisons with a deadline. */
    synchronized long latest() {
        if (uptime != null) {
            look();
            lastLatest = Math.max(lastLatest, monotonic.getAsLong() + greatest);
            return lastLatest;
        }
        return monotonic.getAsLong();
    }

    /** Reads both clocks, and narrows the bounds of their difference. */
    private void look() {
        long before = monotonic.getAsLong();
        long shown;
        try {
            shown = uptime.read();
        } catch (IOException e) {
            throw new UncheckedIOException("cannot read /proc/uptime", e);
        }
        long after = monotonic.getAsLong();
        long low = shown - after;
        long high = shown + STEP - before;
        if (low > greatest || high < least) {
            least = low;
            greatest = high;
        } else {
            least = Math.max(least, low);
            greatest = Math.min(greatest, high);
        }
    }
}
