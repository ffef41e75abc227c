package engines;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.LongSerializer;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.TestInputTopic;
import org.apache.kafka.streams.TestOutputTopic;
import org.apache.kafka.streams.TopologyTestDriver;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.kstream.internals.SessionWindow;
import org.apache.kafka.streams.state.SessionStore;
import org.apache.kafka.streams.state.ValueAndTimestamp;
import org.apache.kafka.streams.state.WindowStore;
import org.apache.kafka.streams.test.TestRecord;

/** Records every entry of driver.json through TopologyTestDriver: one task, so one partition. */
final class Driver {
    private static final String STORE = "store";

    private final JsonNode settings;
    private final List<Map<String, Object>> output = new ArrayList<>();
    private final List<Map<String, Object>> changelog = new ArrayList<>();
    private final ArrayNode dropped = Pipeline.JSON.createArrayNode();

    private Driver(JsonNode settings) {
        this.settings = settings;
    }

    public static void main(String[] arguments) throws Exception {
        Path recorded = Path.of(arguments[0]);
        for (JsonNode settings : Pipeline.JSON.readTree(Path.of("driver.json").toFile())) {
            new Driver(settings).record(recorded);
        }
    }

    private void record(Path recorded) throws Exception {
        String name = settings.get("name").asText();
        var events = Pipeline.events(recorded.resolve(settings.path("events").asText("events.jsonl")));
        int restart = settings.path("restart_before_arrival").asInt(events.size());
        run(events.subList(0, restart));
        if (restart < events.size()) {
            run(events.subList(restart, events.size()));
        }
        Path folder = recorded.resolve("kafka-driver").resolve(name);
        Pipeline.write(folder.resolve("output.jsonl.gz"), output);
        if (settings.get("emit").asText().equals("on_update")) { // otherwise the same
            Pipeline.write(folder.resolve("changelog.jsonl.gz"), changelog);
        }
        ObjectNode all = Pipeline.JSON.createObjectNode()
            .put("engine", "kafka-streams").put("version", "4.3.0").put("runner", "TopologyTestDriver")
            .put("events", "events.jsonl").put("retention", "default").put("caching", false)
            .put("partitions", 1).put("commit", "after every record").put("emit_interval", "0s")
            .put("wall_clock_per_event", "0s");
        all.setAll((ObjectNode) settings);
        all.putObject("observed")
            .put("output_rows", output.size()).put("output_tombstones", Pipeline.tombstones(output))
            .put("changelog_rows", changelog.size())
            .put("changelog_tombstones", Pipeline.tombstones(changelog))
            .set("dropped_records_total", dropped);
        Pipeline.write(folder.resolve("settings.json"), all);
        System.out.println(name + " " + all.get("observed"));
    }

    /** One life of the application: its store is what the changelog holds, its clock starts anew. */
    private void run(List<Pipeline.Event> events) throws Exception {
        long shift = settings.has("shift") ? Pipeline.duration(settings.get("shift")).toMillis() : 0;
        StreamsBuilder builder = new StreamsBuilder();
        Pipeline.add(
            builder.stream(Pipeline.INPUT, Consumed.with(Serdes.String(), Serdes.Long())
                    .withTimestampExtractor((record, latest) -> record.timestamp() - shift))
                .groupByKey(Grouped.with(Serdes.String(), Serdes.Long())),
            STORE, settings);
        try (var driver = new TopologyTestDriver(builder.build(), properties(), Instant.EPOCH)) {
            restore(driver);
            TestInputTopic<String, Long> input =
                driver.createInputTopic(Pipeline.INPUT, new StringSerializer(), new LongSerializer());
            Duration tick = settings.has("wall_clock_per_event")
                ? Pipeline.duration(settings.get("wall_clock_per_event")) : Duration.ZERO;
            for (Pipeline.Event event : events) {
                if (!tick.isZero()) {
                    driver.advanceWallClockTime(tick);
                }
                input.pipeInput(event.key(), event.amount(), event.time() + shift);
                drain(driver, STORE + "-output", output, event.arrival());
                drain(driver, "driver-store-changelog", changelog, event.arrival());
            }
            dropped.add(driver.metrics().entrySet().stream()
                .filter(metric -> metric.getKey().name().equals("dropped-records-total"))
                .mapToLong(metric -> ((Number) metric.getValue().metricValue()).longValue()).sum());
        }
    }

    private Properties properties() {
        Properties properties = new Properties();
        properties.put(StreamsConfig.APPLICATION_ID_CONFIG, "driver");
        properties.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, "127.0.0.1:1"); // never connected to
        properties.put(StreamsConfig.STATE_DIR_CONFIG, System.getProperty("java.io.tmpdir"));
        properties.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG,
            settings.path("caching").asBoolean() ? 10 << 20 : 0);
        properties.put(StreamsConfig.InternalConfig.EMIT_INTERVAL_MS_KSTREAMS_WINDOWED_AGGREGATION,
            settings.has("emit_interval") ? Pipeline.duration(settings.get("emit_interval")).toMillis() : 0);
        return properties;
    }

    /** The driver deletes its state when it is closed: put the changelog back, record by record. */
    private void restore(TopologyTestDriver driver) {
        for (Map<String, Object> row : changelog) {
            ByteBuffer key = bytes(row.get("key"));
            Long value = row.get("value") == null ? null : bytes(row.get("value")).getLong();
            if (settings.get("window").has("session")) {
                byte[] inner = new byte[key.remaining() - 16];
                key.get(inner);
                long end = key.getLong();
                SessionStore<String, Long> store = driver.getSessionStore(STORE);
                store.put(new Windowed<>(new String(inner), new SessionWindow(key.getLong(), end)), value);
            } else {
                byte[] inner = new byte[key.remaining() - 12];
                key.get(inner);
                WindowStore<String, ValueAndTimestamp<Long>> store = driver.getTimestampedWindowStore(STORE);
                store.put(new String(inner),
                    ValueAndTimestamp.make(value, (Long) row.get("timestamp")), key.getLong());
            }
        }
        // What these puts have written to the changelog is not the application's: let the driver
        // collect it, and drop it.
        driver.advanceWallClockTime(Duration.ZERO);
        drain(driver, "driver-store-changelog", new ArrayList<>(), -1);
    }

    private static ByteBuffer bytes(Object hex) {
        return ByteBuffer.wrap(HexFormat.of().parseHex((String) hex));
    }

    private static void drain(
            TopologyTestDriver driver, String topic, List<Map<String, Object>> rows, int arrival) {
        TestOutputTopic<byte[], byte[]> records =
            driver.createOutputTopic(topic, new ByteArrayDeserializer(), new ByteArrayDeserializer());
        for (TestRecord<byte[], byte[]> record : records.readRecordsToList()) {
            Map<String, Object> row = Pipeline.row(
                record.key(), record.value(), 0, rows.size(), record.timestamp());
            row.put("arrival", arrival);
            rows.add(row);
        }
    }
}
