package engines;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.beam.runners.direct.DirectOptions;
import org.apache.beam.runners.direct.DirectRunner;
import org.apache.beam.sdk.Pipeline;
import org.apache.beam.sdk.PipelineResult;
import org.apache.beam.sdk.coders.Coder;
import org.apache.beam.sdk.coders.KvCoder;
import org.apache.beam.sdk.coders.NullableCoder;
import org.apache.beam.sdk.coders.StringUtf8Coder;
import org.apache.beam.sdk.coders.VarIntCoder;
import org.apache.beam.sdk.coders.VarLongCoder;
import org.apache.beam.sdk.metrics.MetricResult;
import org.apache.beam.sdk.metrics.MetricsFilter;
import org.apache.beam.sdk.options.PipelineOptionsFactory;
import org.apache.beam.sdk.testing.TestStream;
import org.apache.beam.sdk.transforms.DoFn;
import org.apache.beam.sdk.transforms.GroupByKey;
import org.apache.beam.sdk.transforms.ParDo;
import org.apache.beam.sdk.transforms.windowing.AfterAll;
import org.apache.beam.sdk.transforms.windowing.AfterFirst;
import org.apache.beam.sdk.transforms.windowing.AfterPane;
import org.apache.beam.sdk.transforms.windowing.AfterProcessingTime;
import org.apache.beam.sdk.transforms.windowing.AfterWatermark;
import org.apache.beam.sdk.transforms.windowing.CalendarWindows;
import org.apache.beam.sdk.transforms.windowing.FixedWindows;
import org.apache.beam.sdk.transforms.windowing.IntervalWindow;
import org.apache.beam.sdk.transforms.windowing.PaneInfo;
import org.apache.beam.sdk.transforms.windowing.Sessions;
import org.apache.beam.sdk.transforms.windowing.SlidingWindows;
import org.apache.beam.sdk.transforms.windowing.Trigger;
import org.apache.beam.sdk.transforms.windowing.Window;
import org.apache.beam.sdk.transforms.windowing.WindowFn;
import org.apache.beam.sdk.transforms.windowing.BoundedWindow;
import org.apache.beam.sdk.values.KV;
import org.apache.beam.sdk.values.TimestampedValue;
import org.joda.time.DateTimeZone;
import org.joda.time.Duration;
import org.joda.time.Instant;

/** Records pipelines through the direct runner, one after the other. */
final class Recorder {
    private static final Coder<KV<String, KV<Integer, Long>>> EVENT = KvCoder.of(
        NullableCoder.of(StringUtf8Coder.of()), KvCoder.of(VarIntCoder.of(), VarLongCoder.of()));

    /** No event: the input has ended. */
    private static final KV<String, KV<Integer, Long>> END = KV.of(null, KV.of(-1, 0L));

    /** In place of an amount: no event; the wall clock moves on before the event of this arrival. */
    private static final long TURN = Long.MIN_VALUE;

    @SuppressWarnings("unchecked")
    private static final TimestampedValue<KV<String, KV<Integer, Long>>>[] NO_MORE = new TimestampedValue[0];

    /** The pipeline runs in this process: its functions write here. */
    private static final List<Map<String, Object>> OUTPUT = Collections.synchronizedList(new ArrayList<>());
    private static volatile Integer arrival;

    private Recorder() {}

    public static void main(String[] arguments) throws Exception {
        Map<String, Object> common = new LinkedHashMap<>();
        common.put("engine", "beam");
        common.put("version", arguments[2]);
        common.put("runner", "direct");
        common.put("watermark", "after every event");
        common.put("end_of_input", "flushed");
        Fixtures.record(Path.of(arguments[0]), Path.of(arguments[1]), entry -> common, (settings, events) -> {
            OUTPUT.clear();
            arrival = null;
            long dropped = run(settings, events);
            return Fixtures.Outcome.counted(Map.of("output", OUTPUT), Map.of("dropped_due_to_lateness", dropped));
        });
    }

    private static long run(ObjectNode settings, List<Fixtures.Event> events) {
        DirectOptions options = PipelineOptionsFactory.as(DirectOptions.class);
        options.setRunner(DirectRunner.class);
        options.setTargetParallelism(1);
        Pipeline pipeline = Pipeline.create(options);
        pipeline.apply(source(settings, events))
            .apply(ParDo.of(new Arrive()))
            .apply(window(settings))
            .apply(GroupByKey.create())
            .apply(ParDo.of(new Record()));
        PipelineResult result = pipeline.run();
        result.waitUntilFinish();
        long dropped = 0;
        for (MetricResult<Long> counter : result.metrics().queryMetrics(MetricsFilter.builder().build()).getCounters()) {
            if (counter.getName().getName().equalsIgnoreCase("droppedDueToLateness")) {
                dropped += counter.getAttempted();
            }
        }
        return dropped;
    }

    /**
     * The events, one to a bundle, or in bundles of the sizes in the settings; after each bundle the
     * watermark is the largest time - delay. Before it, the wall clock moves on to where the settings say.
     */
    private static TestStream<KV<String, KV<Integer, Long>>> source(ObjectNode settings, List<Fixtures.Event> events) {
        long delay = Fixtures.millis(settings, "watermark_delay");
        long largest = Long.MIN_VALUE;
        TestStream.Builder<KV<String, KV<Integer, Long>>> source = TestStream.create(EVENT);
        long clock = settings.path("wall_clock").path(0).asLong();
        int taken = 0;
        for (int bundle = 0; taken < events.size(); bundle++) {
            Fixtures.Event first = events.get(taken);
            long now = settings.path("wall_clock").path(bundle).asLong(clock);
            if (now > clock) {
                source = source.addElements(at(first.time(), KV.of(null, KV.of(first.arrival(), TURN))))
                    .advanceProcessingTime(Duration.millis(now - clock));
                clock = now;
            }
            int next = taken + settings.path("bundles").path(bundle).asInt(1);
            List<TimestampedValue<KV<String, KV<Integer, Long>>>> elements = new ArrayList<>();
            long before = largest;
            for (Fixtures.Event event : events.subList(taken, next)) {
                elements.add(at(event.time(), KV.of(event.key(), KV.of(event.arrival(), event.amount()))));
                largest = Math.max(largest, event.time());
            }
            source = source.addElements(elements.get(0), elements.subList(1, elements.size()).toArray(NO_MORE));
            if (largest > before) {
                source = source.advanceWatermarkTo(Instant.ofEpochMilli(largest - delay));
            }
            taken = next;
        }
        return source.addElements(at(largest, END)).advanceWatermarkToInfinity();
    }

    private static <T> TimestampedValue<T> at(long time, T value) {
        return TimestampedValue.of(value, Instant.ofEpochMilli(time));
    }

    private static Window<KV<String, KV<Integer, Long>>> window(ObjectNode settings) {
        Window<KV<String, KV<Integer, Long>>> window = Window.<KV<String, KV<Integer, Long>>>into(assigner(settings))
            .withAllowedLateness(Duration.millis(Fixtures.millis(settings, "allowed_lateness")));
        if (settings.has("early")) {
            window = window.triggering(AfterWatermark.pastEndOfWindow()
                .withEarlyFirings(trigger(settings.get("early"))).withLateFirings(trigger(settings.get("late"))));
        } else if (settings.has("late")) {
            window = window.triggering(
                AfterWatermark.pastEndOfWindow().withLateFirings(trigger(settings.get("late"))));
        }
        return settings.get("accumulation").asText().equals("discarding")
            ? window.discardingFiredPanes() : window.accumulatingFiredPanes();
    }

    /** After some events, some time after the first one by the wall clock, or any or all of other triggers. */
    private static Trigger.OnceTrigger trigger(JsonNode trigger) {
        if (trigger.isInt()) {
            return AfterPane.elementCountAtLeast(trigger.asInt());
        }
        if (trigger.has("after")) {
            return AfterProcessingTime.pastFirstElementInPane()
                .plusDelayOf(Duration.millis(Fixtures.millis(trigger, "after")));
        }
        List<Trigger> parts = new ArrayList<>();
        trigger.elements().next().forEach(part -> parts.add(trigger(part)));
        return trigger.has("any") ? AfterFirst.of(parts) : AfterAll.of(parts);
    }

    private static WindowFn<Object, ? extends BoundedWindow> assigner(ObjectNode settings) {
        JsonNode window = settings.get("window");
        JsonNode fields = window.elements().next();
        if (settings.has("timezone")) {
            return CalendarWindows.days(1).withTimeZone(DateTimeZone.forID(settings.get("timezone").asText()));
        }
        return switch (window.fieldNames().next()) {
            case "session" -> Sessions.withGapDuration(Duration.millis(Fixtures.millis(fields, "gap")));
            case "tumbling" -> FixedWindows.of(Duration.millis(Fixtures.millis(fields, "size")));
            case "hopping" -> SlidingWindows.of(Duration.millis(Fixtures.millis(fields, "size")))
                .every(Duration.millis(Fixtures.millis(fields, "advance")));
            default -> throw new IllegalArgumentException(window.toString());
        };
    }

    /** The runner takes the events of the test stream one by one, and waits in between. */
    private static final class Arrive extends DoFn<KV<String, KV<Integer, Long>>, KV<String, KV<Integer, Long>>> {
        @ProcessElement
        public void process(@Element KV<String, KV<Integer, Long>> event, OutputReceiver<KV<String, KV<Integer, Long>>> next) {
            if (event.equals(END)) {
                arrival = null;
            } else {
                arrival = event.getValue().getKey();
                if (event.getValue().getValue() != TURN) {
                    next.output(event);
                }
            }
        }
    }

    private static final class Record extends DoFn<KV<String, Iterable<KV<Integer, Long>>>, Void> {
        @ProcessElement
        public void process(@Element KV<String, Iterable<KV<Integer, Long>>> group, BoundedWindow window,
                PaneInfo pane, @Timestamp Instant timestamp) {
            long events = 0;
            long amount = 0;
            for (KV<Integer, Long> each : group.getValue()) {
                events++;
                amount += each.getValue();
            }
            IntervalWindow bounds = (IntervalWindow) window;
            Map<String, Object> row = new LinkedHashMap<>();
            row.put("arrival", arrival);
            row.put("key", group.getKey());
            row.put("window_start", bounds.start().getMillis());
            row.put("window_end", bounds.end().getMillis());
            row.put("events", events);
            row.put("amount", amount);
            row.put("timing", pane.getTiming().name());
            row.put("index", pane.getIndex());
            row.put("last", pane.isLast());
            row.put("timestamp", timestamp.getMillis());
            OUTPUT.add(row);
        }
    }
}
