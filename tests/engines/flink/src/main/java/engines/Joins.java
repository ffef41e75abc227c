package engines;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.flink.api.common.serialization.SerializerConfigImpl;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.common.typeutils.TypeSerializer;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.api.java.tuple.Tuple3;
import org.apache.flink.streaming.api.functions.co.ProcessJoinFunction;
import org.apache.flink.streaming.api.operators.co.IntervalJoinOperator;
import org.apache.flink.streaming.api.watermark.Watermark;
import org.apache.flink.streaming.util.KeyedTwoInputStreamOperatorTestHarness;
import org.apache.flink.util.Collector;
import org.apache.flink.util.OutputTag;

/**
 * Records Flink's own operator of the interval join, which is handed one event after the other: in a
 * job, the order in which two inputs are read varies.
 */
final class Joins {
    private static final TypeInformation<Tuple2<String, Integer>> EVENT = Types.TUPLE(Types.STRING, Types.INT);

    private Joins() {}

    static Fixtures.Outcome run(JsonNode settings, List<Fixtures.Event> events) throws Exception {
        List<Map<String, Object>> output = new ArrayList<>();
        List<Map<String, Object>> late = new ArrayList<>();
        OutputTag<Tuple2<String, Integer>> left = new OutputTag<>("left", EVENT);
        OutputTag<Tuple2<String, Integer>> right = new OutputTag<>("right", EVENT);
        TypeSerializer<Tuple2<String, Integer>> serializer = EVENT.createSerializer(new SerializerConfigImpl());
        var operator = new IntervalJoinOperator<>(
            -Fixtures.millis(settings, "before"),
            Fixtures.millis(settings, "after"),
            true, true, left, right, serializer, serializer, new Pair());
        try (var harness = new KeyedTwoInputStreamOperatorTestHarness<>(
                operator, event -> event.f0, event -> event.f0, Types.STRING)) {
            harness.open();
            long delay = Fixtures.millis(settings, "watermark_delay");
            Map<Boolean, Long> latest = new HashMap<>();
            int taken = 0;
            for (Fixtures.Event event : events) {
                String key = event.key();
                int arrival = event.arrival();
                long time = event.time();
                boolean own = event.left();
                if (key == null) { // keyBy refuses them
                    continue;
                }
                if (own) {
                    harness.processElement1(Tuple2.of(key, arrival), time);
                } else {
                    harness.processElement2(Tuple2.of(key, arrival), time);
                }
                var pairs = harness.extractOutputStreamRecords();
                for (var record : pairs.subList(taken, pairs.size())) {
                    Tuple3<String, Integer, Integer> pair = record.getValue();
                    Map<String, Object> row = new LinkedHashMap<>();
                    row.put("arrival", arrival);
                    row.put("key", pair.f0);
                    row.put("left", pair.f1);
                    row.put("right", pair.f2);
                    row.put("timestamp", record.getTimestamp());
                    output.add(row);
                }
                taken = pairs.size();
                var lost = harness.getSideOutput(own ? left : right);
                if (lost != null && !lost.isEmpty()) {
                    late.add(Map.of("arrival", lost.poll().getValue().f1));
                }
                // Each stream has its own watermark; the operator's is the lesser of the two.
                if (time > latest.getOrDefault(own, Long.MIN_VALUE)) {
                    latest.put(own, time);
                    Watermark watermark = new Watermark(time - delay - 1);
                    if (own) {
                        harness.processWatermark1(watermark);
                    } else {
                        harness.processWatermark2(watermark);
                    }
                }
            }
        }
        Map<String, List<Map<String, Object>>> files = new LinkedHashMap<>();
        files.put("output", output);
        files.put("late", late);
        return Fixtures.Outcome.counted(files, Map.of());
    }

    private static final class Pair extends ProcessJoinFunction<
            Tuple2<String, Integer>, Tuple2<String, Integer>, Tuple3<String, Integer, Integer>> {
        @Override
        public void processElement(Tuple2<String, Integer> left, Tuple2<String, Integer> right,
                Context context, Collector<Tuple3<String, Integer, Integer>> out) {
            out.collect(Tuple3.of(left.f0, left.f1, right.f1));
        }
    }
}
