package engines;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Comparator;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;
import java.util.stream.IntStream;
import org.apache.storm.Config;
import org.apache.storm.spout.SpoutOutputCollector;
import org.apache.storm.task.IOutputCollector;
import org.apache.storm.task.OutputCollector;
import org.apache.storm.task.TopologyContext;
import org.apache.storm.topology.BoltDeclarer;
import org.apache.storm.topology.OutputFieldsDeclarer;
import org.apache.storm.topology.TopologyBuilder;
import org.apache.storm.topology.Watermarks;
import org.apache.storm.topology.WindowedBoltExecutor;
import org.apache.storm.topology.base.BaseRichSpout;
import org.apache.storm.topology.base.BaseWindowedBolt;
import org.apache.storm.tuple.Fields;
import org.apache.storm.tuple.Tuple;
import org.apache.storm.tuple.TupleImpl;
import org.apache.storm.tuple.Values;
import org.apache.storm.utils.Utils;
import org.apache.storm.windowing.TupleWindow;

/** Records one task of Storm's executor of windowed bolts, fed by hand. */
final class Recorder {
    private static final Fields FIELDS = new Fields("arrival", "key", "time", "amount");
    private static final String LATE = "late";
    private static final String BOLT = "windows";

    private static final Map<String, Object> DEFAULTS = Utils.readDefaultConfig();
    private static final List<Map<String, Object>> OUTPUT = new ArrayList<>();
    private static final List<Map<String, Object>> LATE_EVENTS = new ArrayList<>();
    private static int arrival;

    private Recorder() {}

    public static void main(String[] arguments) throws Exception {
        Map<String, Object> common = new LinkedHashMap<>();
        common.put("engine", "storm");
        common.put("version", arguments[2]);
        common.put("runner", "windowed-bolt");
        common.put("tasks", 1);
        common.put("inputs", 1);
        common.put("watermark_every", 1);
        common.put("end_of_input", "left open");
        Fixtures.record(Path.of(arguments[0]), Path.of(arguments[1]), entry -> common, Recorder::run);
        System.exit(0); // the executors' timers
    }

    private static Fixtures.Outcome run(ObjectNode settings, List<Fixtures.Event> events) {
        OUTPUT.clear();
        LATE_EVENTS.clear();
        int inputs = settings.get("inputs").asInt();
        int every = settings.get("watermark_every").asInt();
        BaseWindowedBolt bolt = bolt(settings);
        TopologyContext context = context(bolt, inputs);
        Map<String, Object> configuration = new HashMap<>(DEFAULTS);
        configuration.putAll(bolt.getComponentConfiguration());
        // The timer of the watermark does not run by itself.
        configuration.put(Config.TOPOLOGY_BOLTS_WATERMARK_EVENT_INTERVAL_MS, Integer.MAX_VALUE);
        configuration.put(Config.TOPOLOGY_ENABLE_MESSAGE_TIMEOUTS, false);
        WindowedBoltExecutor executor = new WindowedBoltExecutor(bolt);
        executor.prepare(configuration, context, new OutputCollector(new Late()));
        for (int at = 0; at < events.size(); at++) {
            Fixtures.Event event = events.get(at);
            arrival = event.arrival();
            int input = inputs == 1 ? 0 : event.partition();
            executor.execute(new TupleImpl(context,
                new Values(event.arrival(), event.key(), event.time(), event.amount()),
                spout(input), input, Utils.DEFAULT_STREAM_ID));
            if (settings.has("watermark_delay") && (at + 1) % every == 0) {
                Watermarks.tick(executor);
            }
        }
        executor.cleanup();
        Map<String, List<Map<String, Object>>> files = new LinkedHashMap<>();
        files.put("output", OUTPUT);
        files.put("late", LATE_EVENTS);
        return Fixtures.Outcome.counted(files, Map.of());
    }

    private static BaseWindowedBolt bolt(ObjectNode settings) {
        JsonNode window = settings.get("window");
        JsonNode fields = window.elements().next();
        if (window.has("count")) {
            BaseWindowedBolt.Count size = BaseWindowedBolt.Count.of(fields.get("size").asInt());
            int advance = fields.get("advance").asInt();
            return size.value == advance ? new Bolt(0).withTumblingWindow(size)
                : new Bolt(0).withWindow(size, BaseWindowedBolt.Count.of(advance));
        }
        int size = (int) Fixtures.millis(fields, "size");
        BaseWindowedBolt bolt = window.has("tumbling") ? new Bolt(size).withTumblingWindow(millis(size))
            : new Bolt(size).withWindow(millis(size), millis(Fixtures.millis(fields, "advance")));
        return bolt.withTimestampExtractor(tuple -> tuple.getLong(2))
            .withLag(millis(Fixtures.millis(settings, "watermark_delay"))).withLateTupleStream(LATE);
    }

    private static BaseWindowedBolt.Duration millis(long millis) {
        return new BaseWindowedBolt.Duration((int) millis, TimeUnit.MILLISECONDS);
    }

    /** The one task's place in a topology: each input is a spout of one task. */
    private static TopologyContext context(BaseWindowedBolt bolt, int inputs) {
        TopologyBuilder builder = new TopologyBuilder();
        BoltDeclarer declared = builder.setBolt(BOLT, bolt);
        Map<Integer, String> components = new HashMap<>(Map.of(inputs, BOLT));
        Map<String, List<Integer>> tasks = new HashMap<>(Map.of(BOLT, List.of(inputs)));
        Map<String, Map<String, Fields>> fields = new HashMap<>();
        for (int input : IntStream.range(0, inputs).toArray()) {
            builder.setSpout(spout(input), new Spout());
            declared.fieldsGrouping(spout(input), new Fields("key"));
            components.put(input, spout(input));
            tasks.put(spout(input), List.of(input));
            fields.put(spout(input), Map.of(Utils.DEFAULT_STREAM_ID, FIELDS));
        }
        return new TopologyContext(builder.createTopology(), Map.of(), components, tasks, fields, Map.of(), "recording",
            null, null, inputs, 0, List.of(inputs), Map.of(), Map.of(), Map.of(), Map.of(), null, null);
    }

    private static String spout(int input) {
        return "events-" + input;
    }

    /** Counts and adds up, by key, what a window holds. */
    private static final class Bolt extends BaseWindowedBolt {
        private final long size;

        Bolt(long size) {
            this.size = size;
        }

        @Override
        public void execute(TupleWindow window) {
            Map<String, List<Tuple>> byKey = new TreeMap<>(Comparator.nullsFirst(Comparator.naturalOrder()));
            for (Tuple tuple : window.get()) {
                byKey.computeIfAbsent(size == 0 ? null : tuple.getString(1), key -> new ArrayList<>()).add(tuple);
            }
            byKey.forEach((key, tuples) -> {
                Map<String, Object> row = new LinkedHashMap<>();
                row.put("arrival", arrival);
                if (size == 0) {
                    // A count window has no bounds of its own.
                    row.put("window_start", tuples.stream().mapToLong(each -> each.getLong(2)).min().getAsLong());
                    row.put("window_end", tuples.stream().mapToLong(each -> each.getLong(2)).max().getAsLong());
                } else {
                    row.put("key", key);
                    row.put("window_start", window.getEndTimestamp() - size);
                    row.put("window_end", window.getEndTimestamp());
                }
                row.put("events", tuples.size());
                row.put("amount", tuples.stream().mapToLong(each -> each.getLong(3)).sum());
                OUTPUT.add(row);
            });
        }
    }

    /** Sees the late events; the bolt itself sends nothing. */
    private static final class Late implements IOutputCollector {
        @Override
        public List<Integer> emit(String stream, Collection<Tuple> anchors, List<Object> values) {
            LATE_EVENTS.add(Map.of("arrival", ((Tuple) values.get(0)).getInteger(0)));
            return List.of();
        }

        @Override
        public void emitDirect(int task, String stream, Collection<Tuple> anchors, List<Object> values) {
            throw new UnsupportedOperationException();
        }

        @Override
        public void reportError(Throwable error) {
            throw new IllegalStateException(error);
        }

        @Override
        public void ack(Tuple tuple) {}

        @Override
        public void fail(Tuple tuple) {}

        @Override
        public void resetTimeout(Tuple tuple) {}

        @Override
        public void flush() {}
    }

    /** Stands in the topology where events come from. */
    private static final class Spout extends BaseRichSpout {
        @Override
        public void open(Map<String, Object> configuration, TopologyContext context, SpoutOutputCollector collector) {}

        @Override
        public void nextTuple() {}

        @Override
        public void declareOutputFields(OutputFieldsDeclarer declarer) {
            declarer.declare(FIELDS);
        }
    }
}
