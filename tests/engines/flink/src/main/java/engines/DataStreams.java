package engines;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.datastream.KeyedStream;
import org.apache.flink.streaming.api.datastream.SingleOutputStreamOperator;
import org.apache.flink.streaming.api.datastream.WindowedStream;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;
import org.apache.flink.streaming.api.functions.windowing.ProcessWindowFunction;
import org.apache.flink.streaming.api.windowing.assigners.EventTimeSessionWindows;
import org.apache.flink.streaming.api.windowing.assigners.SlidingEventTimeWindows;
import org.apache.flink.streaming.api.windowing.assigners.TumblingEventTimeWindows;
import org.apache.flink.streaming.api.windowing.assigners.WindowAssigner;
import org.apache.flink.streaming.api.windowing.triggers.EventTimeTrigger;
import org.apache.flink.streaming.api.windowing.triggers.PurgingTrigger;
import org.apache.flink.streaming.api.windowing.windows.TimeWindow;
import org.apache.flink.streaming.api.windowing.windows.Window;
import org.apache.flink.types.Row;
import org.apache.flink.util.Collector;
import org.apache.flink.util.OutputTag;

/** Windows of the DataStream API, with the events that they drop. */
final class DataStreams {
    private DataStreams() {}

    static void build(DataStream<Row> source, JsonNode settings) {
        KeyedStream<Row, String> keyed = source
            .filter(event -> event.getField(1) != null) // keyBy refuses them
            .keyBy(event -> event.<String>getFieldAs(1), Types.STRING);
        if (settings.get("window").has("count")) {
            JsonNode count = settings.get("window").get("count");
            keyed.countWindow(count.get("size").asLong(), count.get("advance").asLong())
                .process(new Fire<>(), Types.INT).sinkTo(new DiscardingSink<>());
            return;
        }
        OutputTag<Row> late = new OutputTag<>("late", Recorder.EVENT);
        WindowedStream<Row, String, TimeWindow> windows = keyed
            .window(assigner(settings.get("window")))
            .allowedLateness(Fixtures.duration(settings, "allowed_lateness"))
            .sideOutputLateData(late);
        if (settings.get("firing").asText().equals("delta")) {
            windows = windows.trigger(PurgingTrigger.of(EventTimeTrigger.create()));
        }
        SingleOutputStreamOperator<Integer> fired = windows.process(new Fire<>(), Types.INT);
        fired.sinkTo(new DiscardingSink<>());
        fired.getSideOutput(late).map(DataStreams::late, Types.INT).sinkTo(new DiscardingSink<>());
    }

    private static WindowAssigner<Object, TimeWindow> assigner(JsonNode window) {
        JsonNode fields = window.elements().next();
        return switch (window.fieldNames().next()) {
            case "session" -> EventTimeSessionWindows.withGap(Fixtures.duration(fields, "gap"));
            case "tumbling" -> TumblingEventTimeWindows.of(Fixtures.duration(fields, "size"));
            case "hopping" -> SlidingEventTimeWindows.of(
                Fixtures.duration(fields, "size"), Fixtures.duration(fields, "advance"));
            default -> throw new IllegalArgumentException(window.toString());
        };
    }

    private static int late(Row event) {
        Recorder.LATE.add(Map.of("arrival", event.getField(0)));
        return Recorder.LATE.size();
    }

    /**
     * A firing: the window, the number of events, their sum, and the watermark at which it fired. The
     * bounds of a count window are the least and the largest time in it.
     */
    private static final class Fire<W extends Window> extends ProcessWindowFunction<Row, Integer, String, W> {
        @Override
        public void process(String key, Context context, Iterable<Row> events, Collector<Integer> out) {
            long count = 0;
            long sum = 0;
            long least = Long.MAX_VALUE;
            long largest = Long.MIN_VALUE;
            for (Row event : events) {
                count++;
                sum += event.<Long>getFieldAs(3);
                least = Math.min(least, event.<Long>getFieldAs(2));
                largest = Math.max(largest, event.<Long>getFieldAs(2));
            }
            TimeWindow window = context.window() instanceof TimeWindow own ? own : new TimeWindow(least, largest);
            Map<String, Object> row = new LinkedHashMap<>();
            row.put("key", key);
            row.put("window_start", window.getStart());
            row.put("window_end", window.getEnd());
            row.put("events", count);
            row.put("amount", sum);
            row.put("watermark", context.currentWatermark());
            Recorder.OUTPUT.add(row);
        }
    }
}
