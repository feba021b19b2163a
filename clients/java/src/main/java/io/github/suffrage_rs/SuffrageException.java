package io.github.suffrage_rs;

/** An error of an election. */
public class SuffrageException extends Exception {
    private static final long serialVersionUID = 1;

    SuffrageException(String message) {
        super(message);
    }
}
