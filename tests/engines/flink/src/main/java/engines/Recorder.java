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
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.zip.GZIPOutputStream;
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
import org.apache.flink.runtime.state.FunctionInitializationContext;
import org.apache.flink.runtime.state.FunctionSnapshotContext;
import org.apache.flink.streaming.api.checkpoint.CheckpointedFunction;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.source.legacy.SourceFunction;
import org.apache.flink.types.Row;

/** Records every entry of settings.json, one job after the other, in this process. */
final class Recorder {
    static final ObjectMapper JSON = new ObjectMapper();
    static final TypeInformation<Row> EVENT = Types.ROW_NAMED(
        new String[] {"arrival", "key", "time", "amount"}, Types.INT, Types.STRING, Types.LONG, Types.LONG);

    /** What a job has given so far, by file. The job runs in this process, its sink adds here. */
    static final List<Map<String, Object>> OUTPUT = Collections.synchronizedList(new ArrayList<>());
    static final List<Map<String, Object>> LATE = Collections.synchronizedList(new ArrayList<>());

    private Recorder() {}

    public static void main(String[] arguments) throws Exception {
        Path recorded = Path.of(arguments[0]);
        for (JsonNode settings : JSON.readTree(Path.of("settings.json").toFile())) {
            OUTPUT.clear();
            LATE.clear();
            List<Row> events = events(recorded.resolve(settings.path("events").asText("events.jsonl")));
            if (settings.has("query")) {
                Sql.run(settings, events);
            } else {
                DataStreams.run(settings, events);
            }
            write(recorded.resolve("flink").resolve(settings.get("name").asText()), settings);
        }
    }

    private static void write(Path folder, JsonNode settings) throws IOException {
        boolean sql = settings.has("query");
        ObjectNode all = JSON.createObjectNode()
            .put("engine", "flink").put("version", "2.3.0").put("runner", sql ? "sql" : "datastream")
            .put("events", "events.jsonl").put("parallelism", 1).put("watermark", "after every event")
            .put("end_of_input", "flushed");
        all.setAll((ObjectNode) settings);
        ObjectNode observed = all.putObject("observed").put("output_rows", OUTPUT.size());
        write(folder.resolve("output.jsonl.gz"), OUTPUT);
        if (!sql) {
            write(folder.resolve("late.jsonl.gz"), LATE);
            observed.put("late_rows", LATE.size());
        }
        Files.writeString(folder.resolve("settings.json"),
            JSON.writerWithDefaultPrettyPrinter().writeValueAsString(all) + "\n");
        System.out.println(settings.get("name").asText() + " " + observed);
    }

    static void write(Path file, List<Map<String, Object>> rows) throws IOException {
        Files.createDirectories(file.getParent());
        try (Writer writer = new OutputStreamWriter(
                new GZIPOutputStream(Files.newOutputStream(file)), StandardCharsets.UTF_8)) {
            for (Map<String, Object> row : rows) {
                writer.write(JSON.writeValueAsString(row) + "\n");
            }
        }
    }

    private static List<Row> events(Path file) throws IOException {
        List<Row> events = new ArrayList<>();
        for (String line : Files.readAllLines(file)) {
            JsonNode row = JSON.readTree(line);
            events.add(Row.of(row.get("arrival").asInt(), row.get("key").textValue(),
                row.get("time").asLong(), row.get("amount").asLong()));
        }
        return events;
    }

    static Duration duration(JsonNode text) {
        return Duration.parse("PT" + text.asText().toUpperCase());
    }

    /** One subtask, nothing periodic: what comes out depends on the order of arrival alone. */
    static StreamExecutionEnvironment environment() {
        Configuration configuration = new Configuration();
        configuration.setString("rest.bind-address", "127.0.0.1");
        configuration.setString("rest.bind-port", "0");
        configuration.setString("pipeline.auto-watermark-interval", "0 ms");
        configuration.setString("restart-strategy.type", "fixed-delay");
        configuration.setString("restart-strategy.fixed-delay.attempts", "1");
        configuration.setString("restart-strategy.fixed-delay.delay", "0 s");
        return StreamExecutionEnvironment.createLocalEnvironment(1, configuration);
    }

    /** The events with their times; the watermark follows each of them. */
    static DataStream<Row> source(StreamExecutionEnvironment environment, JsonNode settings, List<Row> events) {
        long delay = duration(settings.get("watermark_delay")).toMillis();
        int restart = settings.path("restart_before_arrival").asInt(-1);
        if (restart >= 0) {
            environment.enableCheckpointing(100);
        }
        Events.failed = false;
        return environment.addSource(new Events(events, restart), EVENT)
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
