package engines;

import java.nio.file.Path;

/** Records what runs through TopologyTestDriver: joins, and windows. */
final class Recorder {
    private Recorder() {}

    public static void main(String[] arguments) throws Exception {
        Fixtures.record(Path.of(arguments[0]), Path.of(arguments[1]),
            entry -> entry.has("how") ? Joins.common() : Driver.common(),
            (settings, events) -> settings.has("how") ? Joins.run(settings, events) : Driver.run(settings, events));
    }
}
