package engines;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.io.OutputStreamWriter;
import java.io.Writer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.zip.GZIPOutputStream;

/** Reads settings.json and the events, and writes what was recorded. */
final class Fixtures {
    private static final ObjectMapper JSON = new ObjectMapper();

    record Event(int arrival, String key, long time, long amount, int partition) {}

    private Fixtures() {}

    /** Every entry of settings.json, with what holds for all of them. */
    static List<ObjectNode> settings(Map<String, ?> common) throws IOException {
        List<ObjectNode> found = new ArrayList<>();
        for (JsonNode entry : JSON.readTree(Path.of("settings.json").toFile())) {
            ObjectNode all = JSON.valueToTree(common);
            all.put("events", "events.jsonl");
            all.setAll((ObjectNode) entry);
            found.add(all);
        }
        return found;
    }

    static List<Event> events(Path recorded, ObjectNode settings) throws IOException {
        List<Event> events = new ArrayList<>();
        for (String line : Files.readAllLines(recorded.resolve(settings.get("events").asText()))) {
            JsonNode row = JSON.readTree(line);
            events.add(new Event(row.get("arrival").asInt(), row.get("key").textValue(),
                row.get("time").asLong(), row.get("amount").asLong(), row.get("partition").asInt()));
        }
        return events;
    }

    /** A duration of the settings in milliseconds; 0 where it is not there. */
    static long millis(JsonNode fields, String name) {
        return fields.has(name) ? Duration.parse("PT" + fields.get(name).asText().toUpperCase()).toMillis() : 0;
    }

    static void write(Path recorded, ObjectNode settings, Map<String, List<Map<String, Object>>> files,
            Map<String, ?> observed) throws IOException {
        Path folder = recorded.resolve(settings.get("engine").asText()).resolve(settings.get("name").asText());
        Files.createDirectories(folder);
        ObjectNode counts = settings.putObject("observed");
        for (Map.Entry<String, List<Map<String, Object>>> file : files.entrySet()) {
            counts.put(file.getKey() + "_rows", file.getValue().size());
            try (Writer writer = new OutputStreamWriter(new GZIPOutputStream(
                    Files.newOutputStream(folder.resolve(file.getKey() + ".jsonl.gz"))), StandardCharsets.UTF_8)) {
                for (Map<String, Object> row : file.getValue()) {
                    writer.write(JSON.writeValueAsString(row) + "\n");
                }
            }
        }
        counts.setAll((ObjectNode) JSON.valueToTree(observed));
        Files.writeString(folder.resolve("settings.json"),
            JSON.writerWithDefaultPrettyPrinter().writeValueAsString(settings) + "\n");
        System.out.println(settings.get("name").asText() + " " + counts);
    }
}
