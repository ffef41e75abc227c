package engines;

import com.fasterxml.jackson.databind.JsonNode;
import java.time.Duration;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.kstream.EmitStrategy;
import org.apache.kafka.streams.kstream.KGroupedStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.SessionWindows;
import org.apache.kafka.streams.kstream.SlidingWindows;
import org.apache.kafka.streams.kstream.Suppressed;
import org.apache.kafka.streams.kstream.TimeWindowedKStream;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.kstream.WindowedSerdes;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.state.BuiltInDslStoreSuppliers;
import org.apache.kafka.streams.state.SessionStore;
import org.apache.kafka.streams.state.WindowStore;

/** What the recordings share: a windowed aggregate as its settings say, and the rows of topics. */
final class Pipeline {
    static final String INPUT = "events";
    /** The end of the name of the store of suppressed windows. */
    static final String BUFFER = "-buffer";

    private Pipeline() {}

    /** Aggregates in a store of the given name and writes to the topic `<name>-output`. */
    static void add(KGroupedStream<String, Long> grouped, String name, JsonNode settings) {
        JsonNode window = settings.get("window");
        String kind = window.fieldNames().next();
        JsonNode fields = window.get(kind);
        Duration grace = Fixtures.duration(settings, "grace");
        String emit = settings.get("emit").asText();
        EmitStrategy strategy =
            emit.equals("on_close") ? EmitStrategy.onWindowClose() : EmitStrategy.onWindowUpdate();
        boolean sum = settings.get("aggregate").asText().equals("sum");
        KTable<Windowed<String>, Long> table;
        Serde<Windowed<String>> serde;
        if (kind.equals("session")) {
            var windows = grouped.windowedBy(
                    SessionWindows.ofInactivityGapAndGrace(Fixtures.duration(fields, "gap"), grace))
                .emitStrategy(strategy);
            var store = store(settings, Materialized.<String, Long, SessionStore<Bytes, byte[]>>as(name));
            table = sum ? windows.reduce(Long::sum, store) : windows.count(store);
            serde = new WindowedSerdes.SessionWindowedSerde<>(Serdes.String());
        } else {
            Duration size = Fixtures.duration(fields, "size");
            var windows = windowed(grouped, fields, kind, size, grace).emitStrategy(strategy);
            var store = store(settings, Materialized.<String, Long, WindowStore<Bytes, byte[]>>as(name));
            table = sum ? windows.reduce(Long::sum, store) : windows.count(store);
            serde = new WindowedSerdes.TimeWindowedSerde<>(Serdes.String(), size.toMillis());
        }
        if (emit.equals("suppressed")) {
            table = table.suppress(
                Suppressed.untilWindowCloses(Suppressed.BufferConfig.unbounded()).withName(name + BUFFER));
        }
        table.toStream().to(name + "-output", Produced.with(serde, Serdes.Long()));
    }

    private static TimeWindowedKStream<String, Long> windowed(
            KGroupedStream<String, Long> grouped, JsonNode fields, String kind, Duration size, Duration grace) {
        if (kind.equals("sliding")) {
            return grouped.windowedBy(SlidingWindows.ofTimeDifferenceAndGrace(size, grace));
        }
        TimeWindows windows = TimeWindows.ofSizeAndGrace(size, grace);
        return grouped.windowedBy(
            fields.has("advance") ? windows.advanceBy(Fixtures.duration(fields, "advance")) : windows);
    }

    private static <S extends StateStore> Materialized<String, Long, S> store(
            JsonNode settings, Materialized<String, Long, S> store) {
        store.withKeySerde(Serdes.String()).withValueSerde(Serdes.Long());
        if (settings.path("store").asText().equals("memory")) {
            store.withStoreType(BuiltInDslStoreSuppliers.IN_MEMORY);
        }
        return settings.path("retention").asText("default").equals("default")
            ? store : store.withRetention(Fixtures.duration(settings, "retention"));
    }

    /** One record of a topic, in the columns that Spark's Kafka source has. */
    static Map<String, Object> row(byte[] key, byte[] value, int partition, long offset, long timestamp) {
        Map<String, Object> row = new LinkedHashMap<>();
        row.put("key", HexFormat.of().formatHex(key));
        row.put("value", value == null ? null : HexFormat.of().formatHex(value));
        row.put("partition", partition);
        row.put("offset", offset);
        row.put("timestamp", timestamp);
        return row;
    }

    /** How many rows, and how many of them are tombstones. */
    static Map<String, Object> observed(List<Map<String, Object>> output, List<Map<String, Object>> changelog) {
        Map<String, Object> observed = new LinkedHashMap<>();
        observed.put("output_rows", output.size());
        observed.put("output_tombstones", tombstones(output));
        observed.put("changelog_rows", changelog.size());
        observed.put("changelog_tombstones", tombstones(changelog));
        return observed;
    }

    private static long tombstones(List<Map<String, Object>> rows) {
        return rows.stream().filter(row -> row.get("value") == null).count();
    }
}
