package engines;

import com.fasterxml.jackson.databind.JsonNode;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.common.serialization.LongSerializer;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.TestInputTopic;
import org.apache.kafka.streams.TestOutputTopic;
import org.apache.kafka.streams.TopologyTestDriver;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.JoinWindows;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.StreamJoined;
import org.apache.kafka.streams.kstream.ValueJoiner;
import org.apache.kafka.streams.state.BuiltInDslStoreSuppliers;
import org.apache.kafka.streams.test.TestRecord;

/** Joins of two streams through TopologyTestDriver: one task. */
final class Joins {
    private Joins() {}

    static Map<String, Object> common() {
        Map<String, Object> common = new LinkedHashMap<>();
        common.put("engine", "kafka-streams");
        common.put("version", "4.3.0");
        common.put("runner", "joins");
        common.put("events", "joins.jsonl");
        common.put("emit_interval", "0s");
        common.put("wall_clock_per_event", "0s");
        common.put("spurious", false);
        common.put("store", "disk");
        return common;
    }

    static Fixtures.Outcome run(JsonNode settings, List<Fixtures.Event> events) throws Exception {
        List<Map<String, Object>> output = new ArrayList<>();
        double dropped;
        try (var driver = new TopologyTestDriver(topology(settings).build(), properties(settings), Instant.EPOCH)) {
            TestInputTopic<String, Long> left =
                driver.createInputTopic("left", new StringSerializer(), new LongSerializer());
            TestInputTopic<String, Long> right =
                driver.createInputTopic("right", new StringSerializer(), new LongSerializer());
            TestOutputTopic<String, String> joined =
                driver.createOutputTopic("joined", new StringDeserializer(), new StringDeserializer());
            long shift = Fixtures.millis(settings, "shift");
            Duration tick = Fixtures.duration(settings, "wall_clock_per_event");
            for (Fixtures.Event event : events) {
                if (!tick.isZero()) {
                    driver.advanceWallClockTime(tick);
                }
                (event.left() ? left : right)
                    .pipeInput(event.key(), event.empty() ? null : (long) event.arrival(), event.time() + shift);
                for (TestRecord<String, String> record : joined.readRecordsToList()) {
                    Map<String, Object> row = new LinkedHashMap<>();
                    String[] pair = record.value().split(":", 2);
                    row.put("arrival", event.arrival());
                    row.put("key", record.key());
                    row.put("left", pair[0].isEmpty() ? null : Integer.valueOf(pair[0]));
                    row.put("right", pair[1].isEmpty() ? null : Integer.valueOf(pair[1]));
                    row.put("timestamp", record.timestamp());
                    output.add(row);
                }
            }
            dropped = driver.metrics().entrySet().stream()
                .filter(metric -> metric.getKey().name().equals("dropped-records-total"))
                .mapToDouble(metric -> ((Number) metric.getValue().metricValue()).doubleValue()).sum();
        }
        return Fixtures.Outcome.counted(Map.of("output", output), Map.of("dropped_records_total", (long) dropped));
    }

    private static StreamsBuilder topology(JsonNode settings) {
        StreamsBuilder builder = new StreamsBuilder();
        long shift = Fixtures.millis(settings, "shift");
        Consumed<String, Long> shifted = Consumed.with(Serdes.String(), Serdes.Long())
            .withTimestampExtractor((record, latest) -> record.timestamp() - shift);
        KStream<String, Long> left = builder.stream("left", shifted);
        KStream<String, Long> right = builder.stream("right", shifted);
        ValueJoiner<Long, Long, String> both =
            (one, other) -> (one == null ? "" : one) + ":" + (other == null ? "" : other);
        StreamJoined<String, Long, Long> joined =
            StreamJoined.with(Serdes.String(), Serdes.Long(), Serdes.Long());
        if (settings.path("store").asText().equals("memory")) {
            joined = joined.withDslStoreSuppliers(BuiltInDslStoreSuppliers.IN_MEMORY);
        }
        JoinWindows windows = windows(settings);
        KStream<String, String> result = switch (settings.get("how").asText()) {
            case "inner" -> left.join(right, both, windows, joined);
            case "left" -> left.leftJoin(right, both, windows, joined);
            default -> left.outerJoin(right, both, windows, joined);
        };
        result.to("joined", Produced.with(Serdes.String(), Serdes.String()));
        return builder;
    }

    /** Windows as they are since 3.1, or with the spurious results of earlier versions. */
    @SuppressWarnings("deprecation")
    private static JoinWindows windows(JsonNode settings) {
        Duration before = Fixtures.duration(settings, "before");
        Duration after = Fixtures.duration(settings, "after");
        Duration grace = Fixtures.duration(settings, "grace");
        Duration longer = before.compareTo(after) > 0 ? before : after;
        JoinWindows windows = settings.path("spurious").asBoolean()
            ? JoinWindows.of(longer).grace(grace) : JoinWindows.ofTimeDifferenceAndGrace(longer, grace);
        return windows.before(before).after(after);
    }

    private static Properties properties(JsonNode settings) {
        Properties properties = new Properties();
        properties.put(StreamsConfig.APPLICATION_ID_CONFIG, "joins");
        properties.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, "127.0.0.1:1"); // never connected to
        properties.put(StreamsConfig.STATE_DIR_CONFIG, System.getProperty("java.io.tmpdir"));
        properties.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 0);
        properties.put(StreamsConfig.InternalConfig.EMIT_INTERVAL_MS_KSTREAMS_OUTER_JOIN_SPURIOUS_RESULTS_FIX,
            Fixtures.duration(settings, "emit_interval").toMillis());
        return properties;
    }
}
