package engines;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.lang.reflect.Proxy;
import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.samza.context.Context;
import org.apache.samza.context.TaskContext;
import org.apache.samza.metrics.MetricsRegistryMap;
import org.apache.samza.operators.functions.FoldLeftFunction;
import org.apache.samza.operators.functions.MapFunction;
import org.apache.samza.operators.functions.SupplierFunction;
import org.apache.samza.operators.impl.Operated;
import org.apache.samza.operators.impl.store.TimeSeriesKeySerde;
import org.apache.samza.operators.spec.OperatorSpecs;
import org.apache.samza.operators.triggers.Trigger;
import org.apache.samza.operators.triggers.Triggers;
import org.apache.samza.operators.windows.AccumulationMode;
import org.apache.samza.operators.windows.Window;
import org.apache.samza.operators.windows.WindowPane;
import org.apache.samza.operators.windows.Windows;
import org.apache.samza.operators.windows.internal.WindowInternal;
import org.apache.samza.serializers.Serde;
import org.apache.samza.serializers.StringSerde;
import org.apache.samza.storage.kv.KeyValueStoreMetrics;
import org.apache.samza.storage.kv.SerializedKeyValueStore;
import org.apache.samza.storage.kv.SerializedKeyValueStoreMetrics;
import org.apache.samza.storage.kv.inmemory.InMemoryKeyValueStore;

/** Records Samza's window operator, its clock and timers moved by hand. */
final class Recorder {
    private static final List<Map<String, Object>> OUTPUT = new ArrayList<>();

    private static long now;

    private Recorder() {}

    public static void main(String[] arguments) throws Exception {
        Map<String, Object> common = new LinkedHashMap<>();
        common.put("engine", "samza");
        common.put("version", arguments[2]);
        common.put("runner", "window-operator");
        common.put("clock", "the time of the event that is processed; events in order of time");
        Fixtures.record(Path.of(arguments[0]), Path.of(arguments[1]), entry -> common, (settings, events) -> {
            settings.put("end_of_input", trigger(settings) == null ? "flushed" : "left open");
            OUTPUT.clear();
            run(settings, events);
            return Fixtures.Outcome.counted(Map.of("output", OUTPUT), Map.of());
        });
    }

    private static void run(ObjectNode settings, List<Fixtures.Event> events) {
        now = Long.MIN_VALUE;
        Operated<Fixtures.Event, String, long[]> operator = new Operated<>(
            OperatorSpecs.createWindowOperatorSpec((WindowInternal<Fixtures.Event, String, long[]>) window(settings), "windows"),
            () -> now, context());
        // How often a task's timers run; at every event if it is not set.
        long every = Math.max(1, Fixtures.millis(settings, "timer_interval"));
        events.sort(Comparator.comparingLong(Fixtures.Event::time));
        if (settings.get("window").has("session")) {
            // An empty key is a prefix of all others: its sessions would begin where theirs do.
            events.removeIf(event -> event.key() == null);
        }
        for (Fixtures.Event event : events) {
            long tick = event.time() - Math.floorMod(event.time(), every);
            if (tick > now) {
                now = tick;
                record(event.arrival(), operator.timer());
            }
            now = event.time();
            record(event.arrival(), operator.message(event));
        }
        // Otherwise it fires a window's triggers in an order that varies.
        if (settings.get("end_of_input").asText().equals("flushed")) {
            List<WindowPane<String, Object>> rest = new ArrayList<>(operator.end());
            rest.sort(Comparator.<WindowPane<String, Object>, String>comparing(pane -> String.valueOf(pane.getKey().getKey()))
                .thenComparing(pane -> pane.getKey().getPaneId()));
            record(null, rest);
        }
    }

    private static Window<Fixtures.Event, String, long[]> window(ObjectNode settings) {
        JsonNode window = settings.get("window");
        JsonNode fields = window.elements().next();
        MapFunction<Fixtures.Event, String> key = Fixtures.Event::key;
        SupplierFunction<long[]> nothing = () -> new long[2];
        FoldLeftFunction<Fixtures.Event, long[]> add = (event, sum) -> new long[] {sum[0] + 1, sum[1] + event.amount()};
        Window<Fixtures.Event, String, long[]> found = window.has("session")
            ? Windows.keyedSessionWindow(key, Fixtures.duration(fields, "gap"), nothing, add, new StringSerde(), new Sums())
            : Windows.keyedTumblingWindow(key, Fixtures.duration(fields, "size"), nothing, add, new StringSerde(), new Sums());
        found.setAccumulationMode(AccumulationMode.valueOf(settings.get("accumulation").asText().toUpperCase()));
        Trigger<Fixtures.Event> early = trigger(settings);
        if (early != null) {
            found.setEarlyTrigger(settings.get("early_once").asBoolean() ? early : Triggers.repeat(early));
        }
        return found;
    }

    /** What sends panes before a window ends; null if nothing does. */
    @SuppressWarnings("unchecked")
    private static Trigger<Fixtures.Event> trigger(JsonNode given) {
        if (given.has("early")) {
            return Triggers.count(given.get("early").asLong());
        }
        if (given.has("early_after")) {
            return Triggers.timeSinceFirstMessage(Fixtures.duration(given, "early_after"));
        }
        if (given.has("early_silence")) {
            return Triggers.timeSinceLastMessage(Fixtures.duration(given, "early_silence"));
        }
        if (given.has("early_any")) {
            List<Trigger<Fixtures.Event>> triggers = new ArrayList<>();
            given.get("early_any").forEach(each -> triggers.add(trigger(each)));
            return Triggers.any(triggers.toArray(new Trigger[0]));
        }
        return null;
    }

    private static void record(Integer arrival, Collection<WindowPane<String, Object>> panes) {
        for (WindowPane<String, Object> pane : panes) {
            long[] sum = (long[]) pane.getMessage();
            Map<String, Object> row = new LinkedHashMap<>();
            row.put("arrival", arrival);
            row.put("key", pane.getKey().getKey());
            row.put("window_start", Long.parseLong(pane.getKey().getPaneId()));
            row.put("events", sum[0]);
            row.put("amount", sum[1]);
            row.put("firing", pane.getFiringType().name());
            OUTPUT.add(row);
        }
    }

    /** What the operator asks its task for: a store. */
    private static Context context() {
        MetricsRegistryMap metrics = new MetricsRegistryMap();
        Object store = new SerializedKeyValueStore<>(new InMemoryKeyValueStore(new KeyValueStoreMetrics("store", metrics)),
            new TimeSeriesKeySerde<>(new StringSerde()), new Sums(), new SerializedKeyValueStoreMetrics("store", metrics));
        TaskContext task = only(TaskContext.class, "getStore", store);
        return only(Context.class, "getTaskContext", task);
    }

    private static <T> T only(Class<T> type, String name, Object answer) {
        return type.cast(Proxy.newProxyInstance(type.getClassLoader(), new Class<?>[] {type}, (proxy, method, arguments) -> {
            if (!method.getName().equals(name)) {
                throw new UnsupportedOperationException(method.toString());
            }
            return answer;
        }));
    }

    /** Two sums: of events and of amounts. */
    private static final class Sums implements Serde<long[]> {
        @Override
        public byte[] toBytes(long[] sums) {
            return sums == null ? null : ByteBuffer.allocate(16).putLong(sums[0]).putLong(sums[1]).array();
        }

        @Override
        public long[] fromBytes(byte[] bytes) {
            if (bytes == null) {
                return null;
            }
            ByteBuffer buffer = ByteBuffer.wrap(bytes);
            return new long[] {buffer.getLong(), buffer.getLong()};
        }
    }
}
