package engines;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.concurrent.Future;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.LongSerializer;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;

/** Records the entries of broker.json, one application over a real broker, restarted half-way. */
final class Broker {
    private static final String APPLICATION = "application";
    private static final int PARTITIONS = 4;
    /** Events are sent in bursts, each after the one before has been committed. */
    private static final int BURST = 80;

    private final String server;
    private final JsonNode all;

    private Broker(String server) throws Exception {
        this.server = server;
        this.all = Fixtures.JSON.readTree(Path.of("broker.json").toFile());
    }

    public static void main(String[] arguments) throws Exception {
        new Broker(arguments[1]).record(Path.of(arguments[0]));
    }

    private void record(Path recorded) throws Exception {
        List<Fixtures.Event> events = Fixtures.events(recorded.resolve("events.jsonl"));
        int restart = all.get(0).get("restart_before_arrival").asInt();
        List<Map<String, Long>> dropped = new ArrayList<>();
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", server))) {
            List<NewTopic> topics = new ArrayList<>(List.of(topic(Pipeline.INPUT)));
            for (JsonNode settings : all) {
                topics.add(topic(settings.get("name").asText() + "-output"));
            }
            admin.createTopics(topics).all().get();
            dropped.add(run(admin, events.subList(0, restart)));
            dropped.add(run(admin, events.subList(restart, events.size())));
        }
        List<Map<String, Object>> commits = commits();
        for (JsonNode settings : all) {
            String name = settings.get("name").asText();
            List<Map<String, Object>> output = rows(name + "-output");
            List<Map<String, Object>> changelog = rows(APPLICATION + "-" + name + "-changelog");
            Map<String, List<Map<String, Object>>> files = new LinkedHashMap<>();
            files.put("output", output);
            files.put("changelog", changelog);
            files.put("commits", commits);
            Map<String, Object> observed = Pipeline.observed(output, changelog);
            observed.put("commits", commits.size());
            observed.put("dropped_records_total_of_all_stores", dropped);
            ObjectNode written = Fixtures.JSON.createObjectNode()
                .put("engine", "kafka-streams").put("version", "4.3.0").put("runner", "broker")
                .put("events", "events.jsonl").put("retention", "default").put("caching", true)
                .put("partitions", PARTITIONS).put("commit_interval", "1s");
            written.setAll((ObjectNode) settings);
            Fixtures.write(recorded.resolve("kafka-broker").resolve(name), written, new Fixtures.Outcome(files, observed));
        }
    }

    /** One life of the application, until all these events are committed. */
    private Map<String, Long> run(Admin admin, List<Fixtures.Event> events) throws Exception {
        StreamsBuilder builder = new StreamsBuilder();
        var grouped = builder.stream(Pipeline.INPUT, Consumed.with(Serdes.String(), Serdes.Long()))
            .groupByKey(Grouped.with(Serdes.String(), Serdes.Long()));
        for (JsonNode settings : all) {
            Pipeline.add(grouped, settings.get("name").asText(), settings);
        }
        Map<TopicPartition, Long> sent = new HashMap<>();
        try (var streams = new KafkaStreams(builder.build(), application());
                var producer = new KafkaProducer<>(
                    Map.<String, Object>of("bootstrap.servers", server), new StringSerializer(), new LongSerializer())) {
            streams.start();
            for (int from = 0; from < events.size(); from += BURST) {
                List<Fixtures.Event> burst = events.subList(from, Math.min(from + BURST, events.size()));
                List<Future<RecordMetadata>> acknowledged = new ArrayList<>();
                for (Fixtures.Event event : burst) {
                    // The partition of a key is the producer's own choice; it must be ours too.
                    Integer partition = event.key() == null ? event.partition() : null;
                    acknowledged.add(producer.send(new ProducerRecord<>(
                        Pipeline.INPUT, partition, event.time(), event.key(), event.amount())));
                }
                producer.flush();
                for (int at = 0; at < burst.size(); at++) {
                    RecordMetadata given = acknowledged.get(at).get();
                    Fixtures.Event event = burst.get(at);
                    if (given.partition() != event.partition() || given.offset() != event.offset()) {
                        throw new IllegalStateException(event + " was stored as " + given);
                    }
                    sent.put(new TopicPartition(Pipeline.INPUT, given.partition()), given.offset() + 1);
                }
                awaitCommitted(admin, sent);
            }
            Map<String, Long> dropped = new TreeMap<>();
            streams.metrics().forEach((name, metric) -> {
                if (name.name().equals("dropped-records-total")) {
                    dropped.merge(name.tags().get("task-id"), ((Number) metric.metricValue()).longValue(), Long::sum);
                }
            });
            return dropped;
        }
    }

    private static void awaitCommitted(Admin admin, Map<TopicPartition, Long> sent) throws Exception {
        for (int attempt = 0; attempt < 600; attempt++) {
            var committed = admin.listConsumerGroupOffsets(APPLICATION).partitionsToOffsetAndMetadata().get();
            if (sent.entrySet().stream().allMatch(entry -> committed.get(entry.getKey()) != null
                    && committed.get(entry.getKey()).offset() == entry.getValue())) {
                return;
            }
            Thread.sleep(100);
        }
        throw new IllegalStateException("not committed within a minute: " + sent);
    }

    private Properties application() {
        Properties properties = new Properties();
        properties.put(StreamsConfig.APPLICATION_ID_CONFIG, APPLICATION);
        properties.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, server);
        properties.put(StreamsConfig.STATE_DIR_CONFIG, System.getProperty("java.io.tmpdir"));
        properties.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 1_000);
        properties.put("auto.offset.reset", "earliest");
        // An application that is closed does not leave its group: the next one gets its partitions
        // when the broker misses it.
        properties.put("session.timeout.ms", 6_000);
        return properties;
    }

    private static NewTopic topic(String name) {
        return new NewTopic(name, PARTITIONS, (short) 1).configs(Map.of("retention.ms", "-1"));
    }

    private List<Map<String, Object>> rows(String topic) {
        List<Map<String, Object>> rows = new ArrayList<>();
        for (var record : read(topic)) {
            rows.add(Pipeline.row(
                record.key(), record.value(), record.partition(), record.offset(), record.timestamp()));
        }
        return rows;
    }

    /**
     * What the application committed, in order: the next offset of a partition of the input. Only
     * then does the cache write what it holds for that partition.
     */
    private List<Map<String, Object>> commits() {
        List<Map<String, Object>> rows = new ArrayList<>();
        for (var record : read("__consumer_offsets")) {
            ByteBuffer key = ByteBuffer.wrap(record.key());
            boolean offset = key.getShort() <= 1; // otherwise about the group's members
            if (offset && text(key).equals(APPLICATION) && text(key).equals(Pipeline.INPUT) && record.value() != null) {
                Map<String, Object> row = new LinkedHashMap<>();
                row.put("commit", rows.size());
                row.put("partition", key.getInt());
                row.put("offset", ByteBuffer.wrap(record.value()).getLong(Short.BYTES));
                rows.add(row);
            }
        }
        return rows;
    }

    private static String text(ByteBuffer bytes) {
        byte[] read = new byte[bytes.getShort()];
        bytes.get(read);
        return new String(read);
    }

    /** A whole topic, partition by partition. */
    private List<ConsumerRecord<byte[], byte[]>> read(String topic) {
        List<ConsumerRecord<byte[], byte[]>> records = new ArrayList<>();
        try (var consumer = new KafkaConsumer<>(
                Map.<String, Object>of("bootstrap.servers", server), new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            for (var info : consumer.partitionsFor(topic)) {
                var partition = new TopicPartition(topic, info.partition());
                consumer.assign(List.of(partition));
                consumer.seekToBeginning(List.of(partition));
                long end = consumer.endOffsets(List.of(partition)).get(partition);
                while (consumer.position(partition) < end) {
                    consumer.poll(Duration.ofMillis(200)).forEach(records::add);
                }
            }
        }
        records.sort(Comparator.comparingInt(ConsumerRecord<byte[], byte[]>::partition)
            .thenComparingLong(ConsumerRecord::offset));
        return records;
    }
}
