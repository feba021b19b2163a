package io.github.suffrage_rs;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.UncheckedIOException;
import java.net.StandardProtocolFamily;
import java.net.UnixDomainSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.Channels;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;

/** A Unix socket of a node that leads by connection, with one connection. */
final class FakeSocket implements AutoCloseable {
    private final Path path;
    private final ServerSocketChannel server;
    private SocketChannel connection;
    private BufferedReader in;

    FakeSocket(Path folder) throws IOException {
        path = folder.resolve("node.sock");
        Files.deleteIfExists(path);
        server = ServerSocketChannel.open(StandardProtocolFamily.UNIX);
        server.bind(UnixDomainSocketAddress.of(path));
    }

    String endpoint() {
        return "unix:" + path;
    }

    /** Accepts the connection, and returns the request with its body. */
    String accept() throws IOException {
        connection = server.accept();
        in = new BufferedReader(new InputStreamReader(Channels.newInputStream(connection), StandardCharsets.UTF_8));
        StringBuilder request = new StringBuilder();
        int length = 0;
        for (String line = in.readLine(); !line.isEmpty(); line = in.readLine()) {
            request.append(line).append('\n');
            if (line.startsWith("Content-Length: ")) {
                length = Integer.parseInt(line.substring(16));
            }
        }
        char[] body = new char[length];
        for (int read = 0; read < length; ) {
            read += in.read(body, read, length - read);
        }
        return request.append(body).toString();
    }

    void write(String text) {
        try {
            connection.write(ByteBuffer.wrap(text.getBytes(StandardCharsets.UTF_8)));
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    void writeHead() {
        write("HTTP/1.1 200 OK\r\nContent-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n\r\n");
    }

    /** Writes a line as two chunks. */
    void event(String line) {
        String text = line + "\n";
        for (String part : new String[] {text.substring(0, 5), text.substring(5)}) {
            write(Integer.toHexString(part.length()) + "\r\n" + part + "\r\n");
        }
    }

    void event(String name, long token, long deadline, long now) {
        event("{\"event\":\"" + name + "\",\"token\":" + token + ",\"deadline_ns\":" + deadline + ",\"now_ns\":" + now + "}");
    }

    /** Waits until the client has closed the connection. */
    void awaitEnd() throws IOException {
        if (in.read() >= 0) {
            throw new AssertionError("the client has sent more");
        }
    }

    void hangUp() throws IOException {
        connection.close();
    }

    @Override
    public void close() throws IOException {
        server.close();
        if (connection != null) {
            connection.close();
        }
    }
}
