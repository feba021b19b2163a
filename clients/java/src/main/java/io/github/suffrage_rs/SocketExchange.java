package io.github.suffrage_rs;

import java.io.IOException;
import java.net.StandardProtocolFamily;
import java.net.UnixDomainSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.Channels;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.Locale;
import java.util.concurrent.CompletableFuture;

/** One short request over the Unix socket of a node, and its answer. */
final class SocketExchange {
    /** The longest answer in bytes. */
    private static final int LONGEST = 1 << 20;

    private SocketExchange() {}

    /** Sends a request in a thread of its own. The connection is closed when the future is done. */
    static void start(CompletableFuture<Endpoint.Reply> reply, String name, Path socket, String request) {
        Thread thread = new Thread(() -> run(reply, name, socket, request), "suffrage-socket");
        thread.setDaemon(true);
        thread.start();
    }

    private static void run(CompletableFuture<Endpoint.Reply> reply, String name, Path socket, String request) {
        try (SocketChannel channel = SocketChannel.open(StandardProtocolFamily.UNIX)) {
            // Whoever does not wait any more ends the read below.
            reply.whenComplete((done, error) -> close(channel));
            channel.connect(UnixDomainSocketAddress.of(socket));
            ByteBuffer rest = ByteBuffer.wrap(request.getBytes(StandardCharsets.UTF_8));
            while (rest.hasRemaining()) {
                channel.write(rest);
            }
            byte[] answer = Channels.newInputStream(channel).readNBytes(LONGEST);
            reply.complete(parse(name, new String(answer, StandardCharsets.UTF_8)));
        } catch (IOException | NodeException | RuntimeException e) {
            reply.completeExceptionally(e);
        }
    }

    private static void close(SocketChannel channel) {
        try {
            channel.close();
        } catch (IOException e) {
            // It is closed all the same.
        }
    }

    /** The text of a request after which the node closes the connection. */
    static String request(String method, String path, String body) {
        String head = method + " " + path + " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n";
        if (body != null) {
            int length = body.getBytes(StandardCharsets.UTF_8).length;
            head += "Content-Type: application/json\r\nContent-Length: " + length + "\r\n";
        }
        return head + "\r\n" + (body == null ? "" : body);
    }

    private static Endpoint.Reply parse(String name, String answer) throws NodeException, IOException {
        int end = answer.indexOf("\r\n\r\n");
        String[] status = answer.split(" ", 3);
        if (end < 0 || status.length < 3 || !status[1].matches("[0-9]{3}")) {
            throw new IOException("the answer is no HTTP");
        }
        if (answer.substring(0, end).toLowerCase(Locale.ROOT).contains("\r\ntransfer-encoding:")) {
            throw new IOException("the answer is a stream");
        }
        return Endpoint.judge(name, Integer.parseInt(status[1]), answer.substring(end + 4));
    }
}
