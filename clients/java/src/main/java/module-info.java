/** A client of suffrage: leader election. */
module io.github.suffrage_rs {
    requires java.net.http;

    exports io.github.suffrage_rs;
}
