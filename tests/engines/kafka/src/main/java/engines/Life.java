package engines;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.lang.reflect.Field;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.stream.Stream;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.LongSerializer;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.TestInputTopic;
import org.apache.kafka.streams.TopologyTestDriver;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.processor.internals.ProcessorMetadata;
import org.apache.kafka.streams.processor.internals.Restart;
import org.apache.kafka.streams.processor.internals.StreamTask;
import org.apache.kafka.streams.test.TestRecord;

/** One life of the application: it finds what the one before has left, and its clock starts anew. */
final class Life implements AutoCloseable {
    private static final String STORE = "store";
    private static final String APPLICATION = "driver";
    private static final String CHANGELOG = APPLICATION + "-" + STORE + "-changelog";
    private static final String BUFFER = APPLICATION + "-" + STORE + Pipeline.BUFFER + "-store-changelog";

    /** What outlives it: changelogs, what was committed with the offsets, the state's folder, and the clock. */
    record Left(Map<String, List<ConsumerRecord<byte[], byte[]>>> changelogs, ProcessorMetadata committed,
        Path state, Instant clock) {}

    private final JsonNode settings;
    private final Driver.Topics topics;
    private final long shift;
    private final Duration tick;
    private final Path folder;
    private final TopologyTestDriver driver;
    private final TestInputTopic<String, Long> input;
    private final Map<String, List<ConsumerRecord<byte[], byte[]>>> changelogs = new LinkedHashMap<>();
    private Instant clock;
    private int arrival = -1;

    Life(JsonNode settings, Driver.Topics topics, Left left) throws Exception {
        this.settings = settings;
        this.topics = topics;
        shift = Fixtures.millis(settings, "shift");
        tick = Fixtures.duration(settings, "wall_clock_per_event");
        folder = left != null && left.state != null ? left.state : Files.createTempDirectory("state");
        clock = left == null ? Instant.EPOCH : left.clock;
        StreamsBuilder builder = new StreamsBuilder();
        Pipeline.add(
            builder.stream(Pipeline.INPUT, Consumed.with(Serdes.String(), Serdes.Long())
                    .withTimestampExtractor((record, latest) -> record.timestamp() - shift))
                .groupByKey(Grouped.with(Serdes.String(), Serdes.Long())),
            STORE, settings);
        driver = new TopologyTestDriver(builder.build(), properties(), clock);
        input = driver.createInputTopic(Pipeline.INPUT, new StringSerializer(), new LongSerializer());
        if (left != null) {
            changelogs.putAll(left.changelogs);
            for (String topic : changelogs.keySet()) {
                // The buffer is in memory, and is always restored.
                if (left.state == null || topic.equals(BUFFER)) {
                    Restart.restore(task(), topic, changelogs.get(topic));
                }
            }
            Restart.begin(task(), left.committed);
        }
    }

    /** The driver commits after every record by itself. */
    void takeAndCommit(Fixtures.Event event) {
        arrival = event.arrival();
        if (!tick.isZero()) {
            clock = clock.plus(tick);
            driver.advanceWallClockTime(tick);
        }
        input.pipeInput(event.key(), amount(event), event.time() + shift);
        drain();
    }

    /** Hands a record to the driver's task, without the driver. */
    void take(Fixtures.Event event) throws Exception {
        arrival = event.arrival();
        StreamTask task = task();
        byte[] key = new StringSerializer().serialize(Pipeline.INPUT, event.key());
        byte[] amount = new LongSerializer().serialize(Pipeline.INPUT, amount(event));
        task.addRecords(new TopicPartition(Pipeline.INPUT, 0), List.of(
            record(Pipeline.INPUT, arrival, event.time() + shift, key, amount, new RecordHeaders())));
        task.process(0);
    }

    private static Long amount(Fixtures.Event event) {
        return event.empty() ? null : event.amount();
    }

    /** Moving the driver's clock commits. */
    void commit() {
        driver.advanceWallClockTime(Duration.ZERO);
        drain();
    }

    /** Commits; returns how many records have been dropped. */
    long end() {
        commit();
        return driver.metrics().entrySet().stream()
            .filter(metric -> metric.getKey().name().equals("dropped-records-total"))
            .mapToLong(metric -> ((Number) metric.getValue().metricValue()).longValue()).sum();
    }

    /** Ends the task; its state is restored, or found again on disk. */
    Left left() throws Exception {
        ProcessorMetadata committed = task().processorContext().processorMetadata();
        boolean found = !settings.path("restored").asBoolean(true)
            && !settings.path("store").asText().equals("memory");
        return new Left(changelogs, committed, found ? found() : null, clock);
    }

    @Override
    public void close() throws IOException {
        driver.close();
        delete(folder);
    }

    static void delete(Path folder) throws IOException {
        try (Stream<Path> files = Files.walk(folder)) {
            for (Path file : files.sorted(Comparator.reverseOrder()).toList()) {
                Files.delete(file);
            }
        }
    }

    private Properties properties() {
        Properties properties = new Properties();
        properties.put(StreamsConfig.APPLICATION_ID_CONFIG, APPLICATION);
        properties.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, "127.0.0.1:1"); // never connected to
        properties.put(StreamsConfig.STATE_DIR_CONFIG, folder.toString());
        properties.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG,
            settings.path("caching").asBoolean() ? 10 << 20 : 0);
        properties.put(StreamsConfig.InternalConfig.EMIT_INTERVAL_MS_KSTREAMS_WINDOWED_AGGREGATION,
            Fixtures.millis(settings, "emit_interval"));
        return properties;
    }

    /** A copy of what is on disk once the task has closed, since the driver deletes it when it closes. */
    private Path found() throws Exception {
        StreamTask task = task();
        task.suspend();
        task.prepareCommit(true);
        task.postCommit(true);
        task.closeClean();
        taskField().set(driver, null);
        Path copy = Files.createTempDirectory("state");
        try (Stream<Path> files = Files.walk(folder)) {
            for (Path file : files.skip(1).toList()) {
                Files.copy(file, copy.resolve(folder.relativize(file)));
            }
        }
        return copy;
    }

    private StreamTask task() throws Exception {
        return (StreamTask) taskField().get(driver);
    }

    private static Field taskField() throws Exception {
        Field field = TopologyTestDriver.class.getDeclaredField("task");
        field.setAccessible(true);
        return field;
    }

    private void drain() {
        add(topics.output, records(STORE + "-output"));
        add(topics.changelog, kept(CHANGELOG));
        kept(BUFFER);
    }

    private void add(List<Map<String, Object>> rows, List<TestRecord<byte[], byte[]>> records) {
        for (TestRecord<byte[], byte[]> record : records) {
            Map<String, Object> row = Pipeline.row(
                record.key(), record.value(), 0, rows.size(), record.timestamp());
            row.put("arrival", arrival);
            rows.add(row);
        }
    }

    /** The records of a changelog, for the next life. */
    private List<TestRecord<byte[], byte[]>> kept(String topic) {
        List<TestRecord<byte[], byte[]>> records = records(topic);
        for (TestRecord<byte[], byte[]> record : records) {
            List<ConsumerRecord<byte[], byte[]>> log = changelogs.computeIfAbsent(topic, name -> new ArrayList<>());
            // The buffer's tombstones have no time.
            long time = record.timestamp() == null ? 0 : record.timestamp();
            log.add(record(topic, log.size(), time, record.key(), record.value(), record.headers()));
        }
        return records;
    }

    private static ConsumerRecord<byte[], byte[]> record(
            String topic, long offset, long time, byte[] key, byte[] value, Headers headers) {
        return new ConsumerRecord<>(
            topic, 0, offset, time, TimestampType.CREATE_TIME, 0, 0, key, value, headers, Optional.empty());
    }

    private List<TestRecord<byte[], byte[]>> records(String topic) {
        return driver.createOutputTopic(topic, new ByteArrayDeserializer(), new ByteArrayDeserializer())
            .readRecordsToList();
    }
}
