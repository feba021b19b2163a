package io.github.suffrage_rs;

import java.io.IOException;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** JSON, as far as the interface of a node needs it. Integers are {@link Long}, other numbers {@link Double}. */
final class Json {
    /** The deepest nesting that is read. */
    private static final int DEEPEST = 32;

    private final String text;
    private int at;

    private Json(String text) {
        this.text = text;
    }

    /** Reads an object. */
    static Map<String, Object> object(String text) throws IOException {
        Json json = new Json(text);
        Object value = json.value(0);
        json.space();
        if (json.at < text.length() || !(value instanceof Map<?, ?> map)) {
            throw json.wrong("an object");
        }
        Map<String, Object> members = new LinkedHashMap<>();
        map.forEach((name, member) -> members.put((String) name, member));
        return members;
    }

    /** A member that is an integer, or zero. */
    static long integer(Map<String, Object> object, String name) {
        return object.get(name) instanceof Long number ? number : 0;
    }

    /** A member that is a string, or an empty string. */
    static String string(Map<String, Object> object, String name) {
        return object.get(name) instanceof String string ? string : "";
    }

    private IOException wrong(String expected) {
        return new IOException("expected " + expected + " at character " + at + " of the JSON text " + text);
    }

    private void space() {
        while (at < text.length() && " \t\r\n".indexOf(text.charAt(at)) >= 0) {
            at++;
        }
    }

    private boolean skip(char wanted) {
        space();
        boolean found = at < text.length() && text.charAt(at) == wanted;
        at += found ? 1 : 0;
        return found;
    }

    private Object value(int depth) throws IOException {
        if (depth > DEEPEST) {
            throw wrong("less nesting");
        }
        if (skip('{')) {
            Map<String, Object> members = new LinkedHashMap<>();
            while (!skip('}')) {
                if (!members.isEmpty() && !skip(',')) {
                    throw wrong("a comma");
                }
                String name = skip('"') ? rest() : null;
                if (name == null || !skip(':')) {
                    throw wrong("a name");
                }
                members.put(name, value(depth + 1));
            }
            return members;
        }
        if (skip('[')) {
            List<Object> elements = new ArrayList<>();
            while (!skip(']')) {
                if (!elements.isEmpty() && !skip(',')) {
                    throw wrong("a comma");
                }
                elements.add(value(depth + 1));
            }
            return elements;
        }
        return skip('"') ? rest() : word();
    }

    /** The rest of a string, after its opening quote. */
    private String rest() throws IOException {
        StringBuilder string = new StringBuilder();
        while (at < text.length()) {
            char c = text.charAt(at++);
            if (c == '"') {
                return string.toString();
            }
            if (c != '\\') {
                string.append(c);
                continue;
            }
            char escaped = at < text.length() ? text.charAt(at++) : ' ';
            int simple = "\"\\/bfnrt".indexOf(escaped);
            if (simple >= 0) {
                string.append("\"\\/\b\f\n\r\t".charAt(simple));
            } else if (escaped == 'u' && at + 4 <= text.length()) {
                try {
                    string.append((char) Integer.parseInt(text.substring(at, at + 4), 16));
                } catch (NumberFormatException e) {
                    throw wrong("four hexadecimal digits");
                }
                at += 4;
            } else {
                throw wrong("an escape");
            }
        }
        throw wrong("the end of a string");
    }

    private Object word() throws IOException {
        int begin = at;
        while (at < text.length() && ",]}: \t\r\n".indexOf(text.charAt(at)) < 0) {
            at++;
        }
        String word = text.substring(begin, at);
        switch (word) {
            case "true":
                return true;
            case "false":
                return false;
            case "null":
                return null;
            default:
                break;
        }
        try {
            if (word.matches("-?[0-9]+")) {
                return Long.valueOf(word);
            }
            return Double.valueOf(word);
        } catch (NumberFormatException e) {
            throw wrong("a value of at most 63 bits");
        }
    }

    /** Writes an object of strings, numbers and booleans. */
    static String write(Map<String, ?> object) {
        StringBuilder json = new StringBuilder("{");
        object.forEach((name, value) -> {
            json.append(json.length() > 1 ? "," : "");
            quote(json, name);
            json.append(':');
            if (value instanceof Number || value instanceof Boolean) {
                json.append(value);
            } else {
                quote(json, String.valueOf(value));
            }
        });
        return json.append('}').toString();
    }

    private static void quote(StringBuilder json, String text) {
        json.append('"');
        for (char c : text.toCharArray()) {
            if (c == '"' || c == '\\') {
                json.append('\\').append(c);
            } else if (c < ' ') {
                json.append(String.format("\\u%04x", (int) c));
            } else {
                json.append(c);
            }
        }
        json.append('"');
    }
}
