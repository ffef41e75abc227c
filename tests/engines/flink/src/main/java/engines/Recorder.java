package engines;

import com.fasterxml.jackson.databind.JsonNode;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.flink.api.common.eventtime.Watermark;
import org.apache.flink.api.common.eventtime.WatermarkGenerator;
import org.apache.flink.api.common.eventtime.WatermarkOutput;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.state.ListState;
import org.apache.flink.api.common.state.ListStateDescriptor;
import org.apache.flink.api.common.state.CheckpointListener;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.runtime.minicluster.MiniCluster;
import org.apache.flink.runtime.minicluster.MiniClusterConfiguration;
import org.apache.flink.runtime.state.FunctionInitializationContext;
import org.apache.flink.runtime.state.FunctionSnapshotContext;
import org.apache.flink.runtime.util.EnvironmentInformation;
import org.apache.flink.streaming.api.checkpoint.CheckpointedFunction;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.source.legacy.SourceFunction;
import org.apache.flink.types.Row;

/** Records jobs, one after the other, on a cluster in this process. */
final class Recorder {
    static final TypeInformation<Row> EVENT = Types.ROW_NAMED(
        new String[] {"arrival", "key", "time", "amount"}, Types.INT, Types.STRING, Types.LONG, Types.LONG);

    /** What a job has written so far, by file. The job runs in this process; its sink adds here. */
    static final List<Map<String, Object>> OUTPUT = Collections.synchronizedList(new ArrayList<>());
    static final List<Map<String, Object>> LATE = Collections.synchronizedList(new ArrayList<>());

    private Recorder() {}

    public static void main(String[] arguments) throws Exception {
        Configuration configuration = new Configuration();
        configuration.setString("slotmanager.requirement-check-delay", "0 ms"); // jobs are many and small
        try (MiniCluster cluster = new MiniCluster(
                new MiniClusterConfiguration.Builder().setConfiguration(configuration).build())) {
            cluster.start();
            Fixtures.record(Path.of(arguments[0]), Path.of(arguments[1]), Recorder::common,
                (settings, events) -> run(cluster, settings, events));
        }
    }

    private static Map<String, Object> common(JsonNode entry) {
        Map<String, Object> common = new LinkedHashMap<>();
        common.put("engine", "flink");
        common.put("version", EnvironmentInformation.getVersion());
        if (entry.has("before")) {
            common.put("runner", "interval-join");
            common.put("events", "joins.jsonl");
            common.put("watermark", "of each stream, after every event");
            return common;
        }
        common.put("runner", entry.has("query") ? "sql" : "datastream");
        common.put("events", "events.jsonl");
        common.put("parallelism", 1);
        common.put("watermark", "after every event");
        common.put("end_of_input", "flushed");
        return common;
    }

    private static Fixtures.Outcome run(MiniCluster cluster, JsonNode settings, List<Fixtures.Event> events)
            throws Exception {
        if (settings.get("runner").asText().equals("interval-join")) {
            return Joins.run(settings, events);
        }
        OUTPUT.clear();
        LATE.clear();
        boolean sql = settings.has("query");
        StreamExecutionEnvironment environment = environment();
        DataStream<Row> source = source(environment, settings, events);
        if (sql) {
            Sql.build(environment, source, settings);
        } else {
            DataStreams.build(source, settings);
        }
        cluster.executeJobBlocking(environment.getStreamGraph().getJobGraph());
        Map<String, List<Map<String, Object>>> files = new LinkedHashMap<>();
        files.put("output", OUTPUT);
        if (!sql) {
            files.put("late", LATE);
        }
        return Fixtures.Outcome.counted(files, Map.of());
    }

    /** One subtask, nothing periodic: what comes out depends on the order of arrival alone. */
    private static StreamExecutionEnvironment environment() {
        Configuration configuration = new Configuration();
        configuration.setString("pipeline.auto-watermark-interval", "0 ms");
        configuration.setString("restart-strategy.type", "fixed-delay");
        configuration.setString("restart-strategy.fixed-delay.attempts", "1");
        configuration.setString("restart-strategy.fixed-delay.delay", "0 s");
        return StreamExecutionEnvironment.createLocalEnvironment(1, configuration);
    }

    /** The events with their times; the watermark follows each of them. */
    private static DataStream<Row> source(
            StreamExecutionEnvironment environment, JsonNode settings, List<Fixtures.Event> events) {
        long delay = Fixtures.millis(settings, "watermark_delay");
        int restart = settings.path("restart_before_arrival").asInt(-1);
        if (restart >= 0) {
            environment.enableCheckpointing(10);
        }
        Events.failed = false;
        List<Row> rows = new ArrayList<>();
        for (Fixtures.Event event : events) {
            rows.add(Row.of(event.arrival(), event.key(), event.time(), event.amount()));
        }
        return environment.addSource(new Events(rows, restart), EVENT)
            .assignTimestampsAndWatermarks(
                WatermarkStrategy.<Row>forGenerator(context -> new AfterEveryEvent(delay))
                    .withTimestampAssigner((event, before) -> event.<Long>getFieldAs(2)));
    }

    /** Largest time - delay - 1 ms, as Flink's own for bounded out-of-orderness, but at once. */
    private static final class AfterEveryEvent implements WatermarkGenerator<Row> {
        private final long delay;
        private long largest = Long.MIN_VALUE;

        AfterEveryEvent(long delay) {
            this.delay = delay;
        }

        @Override
        public void onEvent(Row event, long time, WatermarkOutput output) {
            largest = Math.max(largest, time);
            output.emitWatermark(new Watermark(largest - delay - 1));
        }

        @Override
        public void onPeriodicEmit(WatermarkOutput output) {}
    }

    /** The events in order; fails once, when what came before the restart is in a checkpoint. */
    private static final class Events implements SourceFunction<Row>, CheckpointedFunction, CheckpointListener {
        static volatile boolean failed;

        private final ArrayList<Row> events;
        private final int restart;
        private transient ListState<Integer> state;
        private transient Map<Long, Integer> pending;
        private volatile int saved;
        private int next;

        Events(List<Row> events, int restart) {
            this.events = new ArrayList<>(events);
            this.restart = restart;
        }

        @Override
        public void run(SourceContext<Row> context) throws Exception {
            while (next < events.size()) {
                if (next == restart && !failed) {
                    while (saved < next) {
                        Thread.sleep(10);
                    }
                    failed = true;
                    throw new IllegalStateException("a restart that was asked for");
                }
                synchronized (context.getCheckpointLock()) {
                    context.collect(events.get(next++));
                }
            }
        }

        @Override
        public void cancel() {}

        @Override
        public void initializeState(FunctionInitializationContext context) throws Exception {
            pending = new ConcurrentHashMap<>();
            state = context.getOperatorStateStore().getListState(new ListStateDescriptor<>("next", Types.INT));
            for (int each : state.get()) {
                next = each;
            }
        }

        @Override
        public void snapshotState(FunctionSnapshotContext context) throws Exception {
            state.update(List.of(next));
            pending.put(context.getCheckpointId(), next);
        }

        @Override
        public void notifyCheckpointComplete(long checkpoint) {
            saved = pending.getOrDefault(checkpoint, 0);
        }
    }
}
