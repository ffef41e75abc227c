package engines;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.OutputStreamWriter;
import java.io.Writer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Function;
import java.util.zip.GZIPInputStream;
import java.util.zip.GZIPOutputStream;

/** Reads settings and events, runs them, and writes the results, in the same way for every engine. */
final class Fixtures {
    static final ObjectMapper JSON = new ObjectMapper();

    /** For a join: whether it is the left stream's, and whether it has no value. */
    record Event(
        int arrival, String key, long time, long amount, int partition, long offset, boolean left, boolean empty) {}

    /** What came out: rows by file, and what was counted. */
    record Outcome(Map<String, List<Map<String, Object>>> files, Map<String, ?> observed) {
        /** Counts the rows of each file, and adds `more`. */
        static Outcome counted(Map<String, List<Map<String, Object>>> files, Map<String, ?> more) {
            Map<String, Object> observed = new LinkedHashMap<>();
            files.forEach((name, rows) -> observed.put(name + "_rows", rows.size()));
            observed.putAll(more);
            return new Outcome(files, observed);
        }
    }

    /** Runs the engine; the lists that it returns are its caller's. */
    interface Run {
        Outcome of(ObjectNode settings, List<Event> events) throws Exception;
    }

    private Fixtures() {}

    /**
     * Runs every entry of a file. Entries of a list (.json) are written to folders of their names; their
     * events are in a file beside `target`. Random cases (lines, or lines that were recorded before) hold
     * their events, and are written as lines, including those that the engine fails on.
     */
    static void record(Path entries, Path target, Function<JsonNode, Map<String, ?>> common, Run run)
            throws Exception {
        if (!entries.toString().endsWith(".json")) {
            List<String> cases = lines(entries); // all, since it may be the file that is written
            try (Writer writer = writer(target)) {
                for (String line : cases) {
                    JsonNode entry = JSON.readTree(line);
                    JsonNode given = entry.has("settings") ? entry.get("settings") : entry;
                    ObjectNode settings = withCommon((ObjectNode) given, common);
                    writer.write(JSON.writeValueAsString(recorded(settings, run)) + "\n");
                }
            }
            return;
        }
        for (JsonNode entry : JSON.readTree(entries.toFile())) {
            ObjectNode settings = withCommon((ObjectNode) entry, common);
            Path events = target.resolveSibling(settings.get("events").asText());
            Outcome outcome = run.of(settings, events(events));
            write(target.resolve(settings.get("name").asText()), settings, outcome);
        }
    }

    private static ObjectNode withCommon(ObjectNode entry, Function<JsonNode, Map<String, ?>> common) {
        ObjectNode all = JSON.valueToTree(common.apply(entry));
        if (!all.has("events")) {
            all.put("events", "events.jsonl");
        }
        all.setAll(entry);
        return all;
    }

    private static ObjectNode recorded(ObjectNode settings, Run run) {
        ObjectNode line = JSON.createObjectNode();
        line.set("settings", settings);
        List<Event> events = new ArrayList<>();
        settings.get("events").forEach(row -> events.add(event(row)));
        try {
            Outcome outcome = run.of(settings, events);
            settings.set("observed", JSON.valueToTree(outcome.observed));
            line.set("files", JSON.valueToTree(outcome.files));
        } catch (Exception | AssertionError error) {
            line.put("failed", error.toString());
        }
        return line;
    }

    static List<Event> events(Path file) throws IOException {
        List<Event> events = new ArrayList<>();
        for (String line : Files.readAllLines(file)) {
            events.add(event(JSON.readTree(line)));
        }
        return events;
    }

    private static Event event(JsonNode row) {
        return new Event(row.get("arrival").asInt(), row.get("key").textValue(), row.get("time").asLong(),
            row.path("amount").asLong(), row.path("partition").asInt(), row.path("offset").asLong(),
            row.path("side").asText().equals("left"), row.path("empty").asBoolean());
    }

    static long millis(JsonNode fields, String name) {
        return duration(fields, name).toMillis();
    }

    /** Such as 500ms, 0.05s, 30s or 1h; zero if it is missing. */
    static Duration duration(JsonNode fields, String name) {
        String text = fields.path(name).asText("0s");
        return text.endsWith("ms") ? Duration.ofMillis(Long.parseLong(text.substring(0, text.length() - 2)))
            : Duration.parse("PT" + text.toUpperCase());
    }

    /** Into a folder: settings with what was observed, and the files. */
    static void write(Path folder, ObjectNode settings, Outcome outcome) throws IOException {
        Files.createDirectories(folder);
        for (Map.Entry<String, List<Map<String, Object>>> file : outcome.files.entrySet()) {
            try (Writer writer = writer(folder.resolve(file.getKey() + ".jsonl.gz"))) {
                for (Map<String, Object> row : file.getValue()) {
                    writer.write(JSON.writeValueAsString(row) + "\n");
                }
            }
        }
        settings.set("observed", JSON.valueToTree(outcome.observed));
        Files.writeString(folder.resolve("settings.json"),
            JSON.writerWithDefaultPrettyPrinter().writeValueAsString(settings) + "\n");
        System.out.println(settings.get("name").asText() + " " + settings.get("observed"));
    }

    private static List<String> lines(Path file) throws IOException {
        try (InputStream bytes = Files.newInputStream(file);
                var text = new BufferedReader(new InputStreamReader(
                    isPacked(file) ? new GZIPInputStream(bytes) : bytes, StandardCharsets.UTF_8))) {
            return text.lines().toList();
        }
    }

    private static Writer writer(Path file) throws IOException {
        OutputStream bytes = Files.newOutputStream(file);
        return new OutputStreamWriter(isPacked(file) ? new GZIPOutputStream(bytes) : bytes, StandardCharsets.UTF_8);
    }

    private static boolean isPacked(Path file) {
        return file.toString().endsWith(".gz");
    }
}
